"""`labelfree bench`: the paper's experiments, from raw data to tables and figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfree.cli.screen import console, plain_table

app = typer.Typer(
    name="bench",
    help="Reproduce the paper's experiments: list, train, collect, run, table, figures, or all of them.",
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="Data set; see `labelfree bench list`.")]
Data = Annotated[
    Path, typer.Option("--data", envvar="LABELFREE_DATA", help="Directory that holds the data sets.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Directory for checkpoints and collected scores.")]
Out = Annotated[Path, typer.Option("--out", help="Directory for estimates, tables and figures.")]
Network = Annotated[str | None, typer.Option("--network", help="Network; default: the data set's own.")]
RecipeName = Annotated[str | None, typer.Option("--recipe", help="Recipe; default: the data set's own.")]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="Seed, repeatable; default: 0, 1, 10.")]
Device = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda, ...; default: a GPU if there is one.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads for torch.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RowLimit = Annotated[
    int | None, typer.Option("--rows", min=1, help="Only the first rows of every shifted set.")
]
Steps = Annotated[
    int, typer.Option("--projnorm-steps", min=0, help="Steps of ProjNorm a shift; 0 leaves it out.")
]


@app.command("list")
def list_(data: Data = Path("data"), as_json: Json = False) -> None:
    """Show each data set: found or missing, where it is expected, where it comes from."""
    from labelfree.experiments import bench

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
        out.print(f"  from     {known['origin']}")
        out.print(f"  licence  {known['licence']};  size {known['size']}")
        out.print(f"  splits   {known['splits']}")


@app.command()
def train(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), network: Network = None,
    recipe: RecipeName = None, seed: Seeds = None, device: Device = None, threads: Threads = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train one network per seed; goes on where a killed run was."""
    from labelfree.experiments import bench

    _threads(threads)
    with _progress() as show:
        made = bench.train(name, bench.seeds_or(seed), data, runs, network, recipe, device, show)
    _tell({"trained": made}, [f"seed {m['seed']}: {m['checkpoint']}" for m in made], as_json)


@app.command()
def collect(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), network: Network = None,
    recipe: RecipeName = None, seed: Seeds = None, device: Device = None, threads: Threads = None,
    projnorm_steps: Steps = 0,
    rows: RowLimit = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Score the source and every shift, once; with --projnorm-steps also ProjNorm."""
    from labelfree.experiments import bench

    _threads(threads)
    seeds = bench.seeds_or(seed)
    with _progress() as show:
        made = bench.collect_scores(
            name, seeds, data, runs, network, recipe, projnorm_steps, device, show, rows
        )
    _tell(
        {"collected": made},
        [f"seed {m['seed']}: {m['shifts']} shifts in {m['folder']}" for m in made],
        as_json,
    )


@app.command()
def run(
    name: Name,
    runs: Runs = Path("runs"),
    out: Out = Path("results"),
    network: Network = None,
    as_json: Json = False,
) -> None:
    """Every method on every collected shift, mild label shift and the batch ablation."""
    from labelfree.experiments import bench

    with _progress() as show:
        folder = bench.run(name, runs, out, network, show)
    _tell({"folder": str(folder), "mae": bench.summary(name, out, network)}, [str(folder)], as_json)


@app.command()
def table(name: Name, out: Out = Path("results"), network: Network = None, as_json: Json = False) -> None:
    """Tables as Markdown, LaTeX and CSV, the paper's numbers beside ours."""
    from labelfree.experiments import bench

    made = [str(path) for path in bench.table(name, out, network)]
    records = bench.summary(name, out, network)
    _tell({"files": made, "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        for path in made:
            typer.echo(path)


@app.command()
def figures(
    name: Name,
    runs: Runs = Path("runs"),
    out: Out = Path("results"),
    network: Network = None,
    as_json: Json = False,
) -> None:
    """The paper's figures as PNG and SVG."""
    from labelfree.experiments import bench

    made = [str(path) for path in bench.figures(name, runs, out, network)]
    _tell({"files": made}, made, as_json)


@app.command("all")
def all_(
    name: Name, data: Data = Path("data"), runs: Runs = Path("runs"), out: Out = Path("results"),
    network: Network = None, recipe: RecipeName = None, seed: Seeds = None, device: Device = None,
    threads: Threads = None, projnorm_steps: Steps = 100,
    rows: RowLimit = None, as_json: Json = False,
) -> None:  # fmt: skip
    """The whole chain for one data set: train, collect, run, table, figures."""
    from labelfree.experiments import bench

    _threads(threads)
    seeds = bench.seeds_or(seed)
    with _progress() as show:
        bench.collect_scores(name, seeds, data, runs, network, recipe, projnorm_steps, device, show, rows)
        folder = bench.run(name, runs, out, network, show)
    made = [
        str(path) for path in [*bench.table(name, out, network), *bench.figures(name, runs, out, network)]
    ]
    records = bench.summary(name, out, network)
    _tell({"folder": str(folder), "files": made, "mae": records}, [], as_json)
    if not as_json:
        _print_mae(records)
        typer.echo(str(folder))


def _tell(value: dict[str, Any], lines: list[str], as_json: bool) -> None:
    if as_json:
        _json(value)
    else:
        for line in lines:
            typer.echo(line)


def _json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schema": 1, **value}, allow_nan=False))


def _print_mae(records: list[dict[str, Any]]) -> None:
    shown = plain_table()
    for column in ("data set", "shift", "method", "MAE", "over seeds", "worst", "paper"):
        shown.add_column(column, justify="left" if column in ("data set", "shift", "method") else "right")
    for r in records:
        shown.add_row(
            r["dataset"], r["shift"], r["method"], r["mae_percent"], f"± {r['std_percent']}", r["worst_percent"],
            str(r["paper_mae_percent"]),
        )  # fmt: skip
    console().print(shown)


def _threads(count: int | None) -> None:
    if count is not None:
        import torch

        torch.set_num_threads(count)


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on stderr; a plain line every so often where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if not sys.stderr.isatty():
        yield _plain()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def _plain() -> Any:
    import time

    last = [time.monotonic()]

    def show(done: int, total: int, what: str) -> None:
        if time.monotonic() - last[0] > 10 or done == total:
            last[0] = time.monotonic()
            print(f"labelfree: {done}/{total} {what}", file=sys.stderr, flush=True)  # noqa: T201

    return show
