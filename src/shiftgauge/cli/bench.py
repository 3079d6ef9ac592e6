"""`shiftgauge bench`: the paper's experiments, from raw data to tables and figures, and the natural shifts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import console, plain_table
from shiftgauge.errors import InputError, optional

app = typer.Typer(
    name="bench",
    help="Reproduce the paper's experiments, and compare methods on natural shifts.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="Data set (see `bench list`), or your own as my_module:DATASET.")]
Data = Annotated[
    Path, typer.Option("--datasets", envvar="SHIFTGAUGE_DATASETS", help="Directory that holds the data sets.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Directory for checkpoints, scores and single estimates.")]
Out = Annotated[Path, typer.Option("--results", help="Directory for estimates, tables and figures.")]
Network = Annotated[
    str | None,
    typer.Option("--network", help="Network, or your own as my_module:network; default: the data set's."),
]
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
Workers = Annotated[int, typer.Option("--loaders", min=0, help="Processes that decode images.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads for torch.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text; errors are fractions.")]
RowLimit = Annotated[
    int | None, typer.Option("--max-rows", min=1, help="At most this many rows of every shifted set.")
]
PaperProjNorm = Annotated[
    bool, typer.Option("--projnorm", help="ProjNorm as in the paper; needs public ImageNet weights.")
]
Steps = Annotated[
    int, typer.Option("--projnorm-steps", min=0, help="Steps per shift of our short ProjNorm; 0: none.")
]
Part = Annotated[str | None, typer.Option("--shard", help="Part i of n of the work, as i/n.")]
Cache = Annotated[Path | None, typer.Option("--cache", help="Keep corrupted sets in this directory.")]
KeepScores = Annotated[
    bool, typer.Option("--keep-scores", help="Keep the scores beside the results, for `bench remake`.")
]
Redo = Annotated[bool, typer.Option("--redo", help="Replace what other weights, data, code or options made.")]
Marginal = Annotated[
    str | None, typer.Option("--marginal", help="Label shares: source or uniform; default: the authors'.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--estimator", help="Your own estimator beside the others, as my_module:MyEstimator; repeatable."
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="One of natural-90, natural-302, natural-527; repeatable; default: all."),
]


@app.command("list")
def list_(data: Data = Path("data"), as_json: Json = False) -> None:
    """Show each data set: found or missing, where it is expected, where it comes from."""
    records = _bench().listing(data)
    if as_json:
        echo_json({"data": str(data), "datasets": records})
        return
    out = console()
    for known in records:
        state = "found" if known["found"] else "missing"
        classes = f", {known['classes']} classes" if known["classes"] else ""
        out.print(known["name"], style="bold", end="")
        out.print(f"  {known['title']}{classes}: {state}")
        for path in known["missing"] if known["classes"] else ():
            out.print(f"  expected {data / path}")
        if not known["missing"] or not known["classes"]:
            out.print(
                f"  here     {known['expected'][0]}"
                if known["found"]
                else f"  needs    {known['missing'][0]}"
            )
        for extra, exists in known["extras"].items():
            out.print(f"  shifts   {data / extra}: {'found' if exists else 'missing'}")
        for line in _few(known["absent"]):
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
    """Train one network per seed; a killed run continues; several GPUs through torchrun."""
    from shiftgauge.experiments.progress import shown

    _set_threads(threads)
    with shown() as show:
        setting = _bench().setting(
            name, data, runs, network, recipe, device=device, precision=precision, workers=workers,
            progress=show,
        )  # fmt: skip
        records = _collect().train_seeds(setting, seed)
    # Of the processes that torchrun starts, only the first one prints.
    if os.environ.get("RANK", "0") == "0":
        _output({"trained": records}, [f"seed {r['seed']}: {r['checkpoint']}" for r in records], as_json)


@app.command()
def collect(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), network: Network = None,
    recipe: RecipeName = None, seed: Seeds = None, device: Device = None, precision: Precision = "auto",
    workers: Workers = 0, threads: Threads = None, projnorm: PaperProjNorm = False, projnorm_steps: Steps = 0,
    rows: RowLimit = None, shard: Part = None, cache: Cache = None, redo: Redo = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Score the source and every shift, once (training what is not trained); ProjNorm too, if asked for."""
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.shards import Shard

    _set_threads(threads)
    with shown() as show:
        setting = _bench().setting(
            name, data, runs, network, recipe, device=device, precision=precision, workers=workers, rows=rows,
            shard=Shard.parse(shard), cache=cache, redo=redo, progress=show,
        )  # fmt: skip
        _print_cache_size(setting)
        records = _collect().collect_scores(setting, seed, projnorm, projnorm_steps)
    _output({"collected": records}, [_collected_line(r) for r in records], as_json)


@app.command()
def run(
    name: Name, runs: Runs = Path("runs"), out: Out = Path("results"), network: Network = None,
    marginal: Marginal = None, shard: Part = None, method: Methods = None, keep_scores: KeepScores = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Every method on every collected shift, mild label shift and the batch ablation; a killed run continues."""
    bench = _bench()
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.protocol import load_method
    from shiftgauge.experiments.shards import Shard

    part, methods = Shard.parse(shard), [load_method(text) for text in method or ()]
    with shown() as show:
        folder = bench.run(name, runs, out, network, marginal, part, show, methods, keep_scores)
    if part.count > 1:
        line = f"shard {shard} done; merge the shards, then run without --shard"
        _output({"shard": shard}, [line], as_json)
        return
    _output({"folder": str(folder), "mae": bench.summary(name, out, network)}, [str(folder)], as_json)
    _print_missing(bench.manifest(folder))
    if bench.outdated(folder):
        typer.echo(f"the tables and figures in {folder} are older: shiftgauge bench table, figures", err=True)


@app.command()
def merge(
    parts: Annotated[list[Path], typer.Argument(help="Run directories of the shards.")],
    runs: Runs = Path("runs"), as_json: Json = False,
) -> None:  # fmt: skip
    """Merge the run directories of several shards; the same file must be the same bytes."""
    from shiftgauge.experiments.shards import merge as merge_runs

    count = merge_runs(parts, runs)
    _output({"runs": str(runs), "files": count}, [f"{runs}: {count} files"], as_json)


@app.command()
def table(name: Name, out: Out = Path("results"), network: Network = None, as_json: Json = False) -> None:
    """Tables as Markdown, LaTeX and CSV, the paper's numbers beside ours."""
    bench = _bench()
    files = [str(path) for path in bench.table(name, out, network)]
    records = bench.summary(name, out, network)
    _output({"files": files, "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        for path in files:
            typer.echo(path)
    _print_missing(bench.manifest(Path(files[0]).parent.parent))


@app.command()
def figures(
    name: Name, runs: Runs = Path("runs"), out: Out = Path("results"), network: Network = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The paper's figures as PNG and SVG."""
    files = [str(path) for path in _bench().figures(name, runs, out, network)]
    _output({"files": files}, files, as_json)


@app.command()
def joint(out: Out = Path("results"), as_json: Json = False) -> None:
    """The paper's main table, figure 2 and the scatter over all data sets that were run."""
    _bench()
    from shiftgauge.experiments import joint as joint_results

    files = [str(path) for path in joint_results.make(out)]
    _output({"files": files}, files, as_json)


@app.command()
def remake(out: Out = Path("results"), as_json: Json = False) -> None:
    """Every table and figure anew, from the scores that the results keep; for after a change of a method."""
    bench = _bench()
    from shiftgauge.experiments import joint as joint_results
    from shiftgauge.experiments.progress import shown

    with shown() as show:
        folders = [str(path) for path in bench.remake(out, show)]
    if any(out.glob(f"*/*/{bench.ESTIMATES}")):
        joint_results.make(out)
    _output({"folders": folders}, folders, as_json)


@app.command()
def natural(
    only: Only = None, runs: Runs = Path("runs"), out: Out = Path("results"), method: Methods = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Every method, and yours, on about 900 natural shifts of tables, with a table by family; trains once."""
    _bench()
    from shiftgauge.experiments import natural as shifts
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.protocol import load_method

    methods = [load_method(text) for text in method or ()]
    with shown() as show:
        files = [str(path) for path in shifts.run(only or (), runs, out, methods, show)]
    result = shifts.family_table(shifts.read_estimates(out))
    _output({"files": files, "families": result.data}, [], as_json)
    if not as_json:
        screen = plain_table(result.header, left=2)
        for row in result.rows:
            screen.add_row(*row)
        console().print(screen)
        for path in files:
            typer.echo(path)


@app.command("all")
def all_(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), out: Out = Path("results"),
    network: Network = None, recipe: RecipeName = None, seed: Seeds = None, device: Device = None,
    precision: Precision = "auto", workers: Workers = 0, threads: Threads = None, projnorm: PaperProjNorm = False,
    projnorm_steps: Steps = 0, rows: RowLimit = None, cache: Cache = None, redo: Redo = False,
    marginal: Marginal = None, method: Methods = None, keep_scores: KeepScores = False, as_json: Json = False,
) -> None:  # fmt: skip
    """All steps for one data set: train, collect, run, table, figures."""
    bench = _bench()
    from shiftgauge.experiments.progress import shown
    from shiftgauge.experiments.protocol import load_method

    _set_threads(threads)
    methods = [load_method(text) for text in method or ()]
    with shown() as show:
        setting = bench.setting(
            name, data, runs, network, recipe, device=device, precision=precision, workers=workers, rows=rows,
            cache=cache, redo=redo, progress=show,
        )  # fmt: skip
        # Checked before hours of training.
        bench.marginal_of(setting.dataset, marginal)
        bench.check_results(
            bench.results_folder(out, setting.dataset.name, setting.network), setting.recipe.settings()
        )
        _print_cache_size(setting)
        _collect().collect_scores(setting, seed, projnorm, projnorm_steps)
        folder = bench.run(
            name, runs, out, network, marginal, progress=show, methods=methods, keep_scores=keep_scores
        )
    files = [*bench.table(name, out, network), *bench.figures(name, runs, out, network)]
    records = bench.summary(name, out, network)
    _output({"folder": str(folder), "files": [str(path) for path in files], "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        typer.echo(str(folder))
    _print_missing(bench.manifest(folder))


def _bench() -> Any:
    """The module behind these commands, or an error that names the extra."""
    optional("pandas", extra="experiments", purpose="shiftgauge bench")
    from shiftgauge.experiments import bench

    return bench


def _collect() -> Any:
    """The module that trains and scores, or an error that names the extra."""
    from shiftgauge.experiments.networks import need_torch

    need_torch()
    from shiftgauge.experiments import collect

    return collect


def _output(value: dict[str, Any], lines: list[str], as_json: bool) -> None:
    if as_json:
        echo_json(value)
    else:
        for line in lines:
            typer.echo(line)


def _collected_line(record: dict[str, Any]) -> str:
    missing = record["missing"]
    suffix = f"; missing {len(missing)} ({'; '.join(_few(missing))})" if missing else ""
    return f"seed {record['seed']}: {record['shifts']} shifts in {record['folder']}{suffix}"


def _print_missing(manifest: dict[str, Any]) -> None:
    """Print on stderr what the tables lack."""
    for line in _few(manifest.get("missing", {})):
        typer.echo(f"missing: {line}", err=True)


def _few(missing: dict[str, str]) -> list[str]:
    rest = [f"{len(missing) - 3} more sets"] if len(missing) > 3 else []
    return [f"{shift}: {why}" for shift, why in list(missing.items())[:3]] + rest


def _print_cache_size(setting: Any) -> None:
    if setting.cache is not None:
        from shiftgauge.experiments.corrupted_cache import cache_bytes

        if setting.dataset.text:
            raise InputError(
                f"--cache keeps corrupted images, and {setting.dataset.name} has none; leave it out"
            )
        setting.dataset.require(setting.root)
        size = cache_bytes(setting.dataset.shifts(setting.root)) / 1e9
        typer.echo(f"corrupted sets will take up to {size:.1f} GB in {setting.cache}", err=True)


def _print_mae(records: list[dict[str, Any]]) -> None:
    from shiftgauge.experiments.tables import number_range

    names = ("data set", "shift", "method")
    numbers = ("MAE", "over seeds", "worst", "shifts", "rows", "seeds", "paper")
    screen = plain_table((*names, *numbers), left=len(names))
    for r in records:
        paper = "" if r["paper_mae"] is None else f"{100 * r['paper_mae']:.2f}"
        # The deviation over one seed is not shown, as in the written tables.
        deviation = f"± {100 * r['std']:.2f}" if r["seeds"] > 1 else ""
        screen.add_row(
            r["dataset"], r["shift"], r["method"], f"{100 * r['mae']:.2f}", deviation,
            f"{100 * r['worst']:.2f}", number_range(r["fewest_shifts"], r["shifts"]),
            number_range(r["rows_least"], r["rows_most"]), str(r["seeds"]), paper,
        )  # fmt: skip
    console().print(screen)


def _set_threads(count: int | None) -> None:
    if count is not None:
        from shiftgauge.experiments.networks import need_torch

        need_torch().set_num_threads(count)
