"""`shiftgauge bench`: the paper's experiments, from raw data to tables and figures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli.screen import console, plain_table
from shiftgauge.errors import InputError
from shiftgauge.results import SCHEMA

app = typer.Typer(
    name="bench",
    help="Reproduce the paper's experiments: list, train, collect, run, table, figures; all of them; merge, joint.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="Data set; see `shiftgauge bench list`.")]
Data = Annotated[
    Path, typer.Option("--data", envvar="SHIFTGAUGE_DATA", help="Directory that holds the data sets.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Directory for checkpoints, scores and single estimates.")]
Out = Annotated[Path, typer.Option("--out", help="Directory for estimates, tables and figures.")]
Network = Annotated[str | None, typer.Option("--network", help="Network; default: the data set's own.")]
RecipeName = Annotated[str | None, typer.Option("--recipe", help="Recipe; default: the data set's own.")]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", min=0, help="Seed, a number, repeatable; default: 0, 1, 10.")
]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, ...; default: a GPU if there is one.")
]
Precision = Annotated[
    str, typer.Option("--precision", help="auto (float16 on a GPU), float32, bfloat16 or float16.")
]
Workers = Annotated[int, typer.Option("--workers", min=0, help="Processes that decode images ahead.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads for torch.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text; errors are fractions.")]
RowLimit = Annotated[
    int | None, typer.Option("--rows", min=1, help="Only so many rows of every shifted set.")
]
PaperNorm = Annotated[
    bool, typer.Option("--projnorm", help="ProjNorm as the paper: needs public ImageNet weights.")
]
Steps = Annotated[
    int, typer.Option("--projnorm-steps", min=0, help="Steps a shift of our short ProjNorm; 0 leaves it out.")
]
Part = Annotated[str | None, typer.Option("--shard", help="Only part i of n of the work, as i/n.")]
Cache = Annotated[Path | None, typer.Option("--cache", help="Keep corrupted sets in this directory.")]
Redo = Annotated[
    bool, typer.Option("--redo", help="Make again what other weights, data, code or options made.")
]
Marginal = Annotated[
    str | None, typer.Option("--marginal", help="Label shares: source or uniform; default: the authors'.")
]


@app.command("list")
def list_(data: Data = Path("data"), as_json: Json = False) -> None:
    """Show each data set: found or missing, where it is expected, where it comes from."""
    from shiftgauge.experiments import bench

    found = bench.listing(data)
    if as_json:
        _json({"data": str(data), "datasets": found})
        return
    out = console()
    for known in found:
        state = "found" if known["found"] else "missing"
        out.print(known["name"], style="bold", end="")
        out.print(f"  {known['title']}, {known['classes']} classes: {state}")
        for path in known["missing"] or known["expected"][:1]:
            out.print(f"  expected {data / path}" if known["missing"] else f"  here     {path}")
        for extra, there in known["extras"].items():
            out.print(f"  shifts   {data / extra}: {'found' if there else 'missing'}")
        for line in _absent(known["absent"]):
            out.print(f"  lacking  {line}")
        out.print(f"  from     {known['origin']}")
        out.print(f"  licence  {known['licence']};  size {known['size']}")
        out.print(f"  splits   {known['splits']}")


@app.command()
def train(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), network: Network = None,
    recipe: RecipeName = None, seed: Seeds = None, device: Device = None, precision: Precision = "auto",
    workers: Workers = 0, threads: Threads = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Train one network per seed; goes on where a killed run was; several GPUs through torchrun."""
    from shiftgauge.experiments import bench
    from shiftgauge.experiments.progress import shown

    _threads(threads)
    with shown() as show:
        given = bench.setting(
            name,
            data,
            runs,
            network,
            recipe,
            device=device,
            precision=precision,
            workers=workers,
            progress=show,
        )
        made = bench.train(given, bench.seeds_or(seed))
    # Of the processes that torchrun starts, one speaks for all.
    if os.environ.get("RANK", "0") == "0":
        _tell({"trained": made}, [f"seed {m['seed']}: {m['checkpoint']}" for m in made], as_json)


@app.command()
def collect(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), network: Network = None,
    recipe: RecipeName = None, seed: Seeds = None, device: Device = None, precision: Precision = "auto",
    workers: Workers = 0, threads: Threads = None, projnorm: PaperNorm = False, projnorm_steps: Steps = 0,
    rows: RowLimit = None, shard: Part = None, cache: Cache = None, redo: Redo = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Score the source and every shift, once (training what is not trained); ProjNorm too, if asked."""
    from shiftgauge.experiments import bench
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.shards import Shard

    _threads(threads)
    with shown() as show:
        given = bench.setting(
            name, data, runs, network, recipe, device=device, precision=precision, workers=workers, rows=rows,
            shard=Shard.parse(shard), cache=cache, redo=redo, progress=show,
        )  # fmt: skip
        _cache_size(given)
        made = bench.collect_scores(given, seed, projnorm, projnorm_steps)
    _tell({"collected": made}, [_collected(m) for m in made], as_json)


@app.command()
def run(
    name: Name, runs: Runs = Path("runs"), out: Out = Path("results"), network: Network = None,
    marginal: Marginal = None, shard: Part = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Every method on every collected shift, mild label shift and the batch ablation; resumes by shift."""
    from shiftgauge.experiments import bench
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.shards import Shard

    with shown() as show:
        folder = bench.run(name, runs, out, network, marginal, Shard.parse(shard), show)
    whole = Shard.parse(shard).count == 1
    told = {"folder": str(folder), "mae": bench.summary(name, out, network)} if whole else {"shard": shard}
    lines = [str(folder)] if whole else [f"shard {shard} done; merge the shards, then run without --shard"]
    _tell(told, lines, as_json)
    if whole:
        _say_missing(bench.about(folder))
        if bench.outdated(folder):
            typer.echo(
                f"the tables and figures in {folder} are older: shiftgauge bench table, figures", err=True
            )


@app.command()
def merge(
    parts: Annotated[list[Path], typer.Argument(help="Run directories of the shards.")],
    runs: Runs = Path("runs"), as_json: Json = False,
) -> None:  # fmt: skip
    """Bring the run directories of several shards together; the same file must be the same bytes."""
    from shiftgauge.experiments.shards import merge as bring

    count = bring(parts, runs)
    _tell({"runs": str(runs), "files": count}, [f"{runs}: {count} files"], as_json)


@app.command()
def table(name: Name, out: Out = Path("results"), network: Network = None, as_json: Json = False) -> None:
    """Tables as Markdown, LaTeX and CSV, the paper's numbers beside ours."""
    from shiftgauge.experiments import bench

    made = [str(path) for path in bench.table(name, out, network)]
    records = bench.summary(name, out, network)
    _tell({"files": made, "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        for path in made:
            typer.echo(path)
    _say_missing(bench.about(Path(made[0]).parent.parent))


@app.command()
def figures(
    name: Name, runs: Runs = Path("runs"), out: Out = Path("results"), network: Network = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The paper's figures as PNG and SVG."""
    from shiftgauge.experiments import bench

    made = [str(path) for path in bench.figures(name, runs, out, network)]
    _tell({"files": made}, made, as_json)


@app.command()
def joint(out: Out = Path("results"), as_json: Json = False) -> None:
    """The paper's main table over all data sets, figure 2 and the scatter, from whatever has been run."""
    from shiftgauge.experiments import joint as together

    made = [str(path) for path in together.make(out)]
    _tell({"files": made}, made, as_json)


@app.command("all")
def all_(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), out: Out = Path("results"),
    network: Network = None, recipe: RecipeName = None, seed: Seeds = None, device: Device = None,
    precision: Precision = "auto", workers: Workers = 0, threads: Threads = None, projnorm: PaperNorm = False,
    projnorm_steps: Steps = 0, rows: RowLimit = None, cache: Cache = None, redo: Redo = False,
    marginal: Marginal = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The whole chain for one data set: train, collect, run, table, figures."""
    from shiftgauge.experiments import bench
    from shiftgauge.experiments.progress import shown

    _threads(threads)
    with shown() as show:
        given = bench.setting(
            name, data, runs, network, recipe, device=device, precision=precision, workers=workers, rows=rows,
            cache=cache, redo=redo, progress=show,
        )  # fmt: skip
        # Hours before it is needed: what was said must be right.
        bench.shares_of(given.dataset, marginal)
        bench.check_results(bench.results_folder(out, name, given.network), given.recipe.settings())
        _cache_size(given)
        bench.collect_scores(given, seed, projnorm, projnorm_steps)
        folder = bench.run(name, runs, out, network, marginal, progress=show)
    made = [*bench.table(name, out, network), *bench.figures(name, runs, out, network)]
    records = bench.summary(name, out, network)
    _tell({"folder": str(folder), "files": [str(path) for path in made], "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        typer.echo(str(folder))
    _say_missing(bench.about(folder))


def _tell(value: dict[str, Any], lines: list[str], as_json: bool) -> None:
    if as_json:
        _json(value)
    else:
        for line in lines:
            typer.echo(line)


def _json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schema": SCHEMA, **value}, allow_nan=False))


def _collected(made: dict[str, Any]) -> str:
    missing = made["missing"]
    first = "; ".join(f"{shift}: {why}" for shift, why in list(missing.items())[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    said = f"; missing {len(missing)} ({first}{more})" if missing else ""
    return f"seed {made['seed']}: {made['shifts']} shifts in {made['folder']}{said}"


def _say_missing(about: dict[str, Any]) -> None:
    """What the tables lack, on stderr."""
    missing = about.get("missing", {})
    for line in _absent(missing):
        typer.echo(f"missing: {line}", err=True)


def _absent(absent: dict[str, str]) -> list[str]:
    rest = [f"{len(absent) - 3} more sets"] if len(absent) > 3 else []
    return [f"{shift}: {why}" for shift, why in list(absent.items())[:3]] + rest


def _cache_size(given: Any) -> None:
    if given.cache is not None:
        from shiftgauge.experiments.sets import cache_bytes

        if given.dataset.text or given.dataset.score is not None:
            raise InputError(
                f"--cache keeps corrupted images, and {given.dataset.name} has none; leave it out"
            )
        given.dataset.require(given.root)
        size = cache_bytes(given.dataset.shifts(given.root)) / 1e9
        typer.echo(f"corrupted sets will take up to {size:.1f} GB in {given.cache}", err=True)


def _print_mae(records: list[dict[str, Any]]) -> None:
    shown = plain_table()
    for column in (
        "data set",
        "shift",
        "method",
        "MAE",
        "over seeds",
        "worst",
        "shifts",
        "rows",
        "seeds",
        "paper",
    ):
        shown.add_column(column, justify="left" if column in ("data set", "shift", "method") else "right")
    for r in records:
        paper = "" if r["paper_mae"] is None else f"{100 * r['paper_mae']:.2f}"
        # One seed has no spread, as in the written tables.
        spread = f"± {100 * r['std']:.2f}" if r["seeds"] > 1 else ""
        shown.add_row(
            r["dataset"], r["shift"], r["method"], f"{100 * r['mae']:.2f}", spread,
            f"{100 * r['worst']:.2f}", _span(r["fewest_shifts"], r["shifts"]), _span(r["rows_least"], r["rows_most"]),
            str(r["seeds"]), paper,
        )  # fmt: skip
    console().print(shown)


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _threads(count: int | None) -> None:
    if count is not None:
        from shiftgauge.experiments.networks import need_torch

        need_torch().set_num_threads(count)
