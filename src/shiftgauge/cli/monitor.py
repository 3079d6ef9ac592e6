"""`shiftgauge monitor`: estimates of deployed models by window, with late labels and alerts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli import options
from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import note, show_progress
from shiftgauge.errors import optional, printable
from shiftgauge.methods.range import RANGE_LEVEL

app = typer.Typer(
    help="Monitor deployed models: estimates by window, late labels, alerts, pages.",
    epilog="Example: shiftgauge monitor --store watched",
)
tokens = typer.Typer(help="Create, list and revoke tokens.", no_args_is_help=True)
app.add_typer(tokens, name="token")
Store = Annotated[
    Path,
    typer.Option(
        "--store", help="The folder with all data of the monitor; with --database nothing is kept there"
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--database", help="postgresql://USER@HOST/NAME; SQLite in the folder by default"),
]
STORE = Path("shiftgauge-monitor")


@app.callback(invoke_without_command=True)
def monitor(
    context: typer.Context,
    store: Store = STORE,
    database: Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on; other machines need tokens")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for a free one")] = 8123,
    workers: Annotated[int, typer.Option(help="Processes that estimate; 0 if they run elsewhere", min=0)] = 1,
    demo: Annotated[bool, typer.Option("--demo", help="Fill an empty folder with 60 days first")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Serve the monitor: API, pages and a worker."""
    if context.invoked_subcommand is not None:
        return
    _check_extra()
    from shiftgauge.monitor.run.serve import listen, serve

    if demo:
        listen(host, port).close()  # the demo takes a while: a port that is taken is known before
        _fill(store, database)

    def started(address: str) -> None:
        _print({"address": address}, f"shiftgauge monitor: {address} (Ctrl-C stops it)", as_json)

    serve(store, database, host=host, port=port, workers=workers, started=started)


def _fill(folder: Path, database: str | None) -> None:
    from shiftgauge.monitor.run.demo import fill

    with show_progress() as progress, _opened(folder, database) as opened:
        filled = fill(opened, lambda day: progress(f"60 days of a model under a shift: {day}"))
    if not filled:
        note(f"{folder if database is None else 'the database'}: already has models; the demo was not added")


@app.command(epilog="Example: shiftgauge monitor worker --store watched --once")
def worker(
    store: Store = STORE,
    database: Database = None,
    once: Annotated[
        bool, typer.Option("--once", help="Run the jobs that are due, then stop: for cron")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate without serving; several workers may share a PostgreSQL database."""
    _check_extra()
    from shiftgauge.monitor.run.serve import run_worker, run_worker_once

    if not once:
        return run_worker(str(store), database)
    done = run_worker_once(store, database)
    _print({"jobs": done}, f"{done} jobs done", as_json)


@app.command(epilog="Example: shiftgauge monitor replay month.parquet --time time --window week")
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scores with labels")],
    time: Annotated[str, typer.Option("--time", help="The column of times")],
    store: Store = STORE,
    database: Database = None,
    source: Annotated[
        Path | None, typer.Option(help="Labelled scores from before; by default the first rows of FILE")
    ] = None,
    model: Annotated[str, typer.Option(help="The model's name in the monitor")] = "replay",
    window: Annotated[
        str, typer.Option(help="hour, day, week, or a number of rows such as '1000 rows'")
    ] = "day",
    level: options.Level = RANGE_LEVEL,
    delay: Annotated[float, typer.Option(help="Delay of the labels in days")] = 0.0,
    first: Annotated[float, typer.Option(help="The fraction of rows that become the source")] = 0.2,
    as_json: options.AsJson = False,
) -> None:
    """Replay a labelled file, and compare the monitor's estimates with the observed errors."""
    _check_extra()
    from shiftgauge.monitor.run.replay import replay as run

    settings: dict[str, Any] = {"window": window, "level": level}
    with show_progress() as progress, _opened(store, database) as opened:
        result = run(
            opened,
            file,
            time,
            source=source,
            model=model,
            settings=settings,
            first=first,
            delay_days=delay,
            say=progress,
        )
    if as_json:
        echo_json(vars(result))
        return
    coverage = (
        f"{result.covered} of {result.labelled} windows"
        if result.labelled
        else "no window with enough labels"
    )
    typer.echo(f"{result.rows:,} rows in {result.windows} windows of model {result.model}")
    typer.echo(f"the adaptive range covered the observed error in {coverage} (target: {result.level:.0%})")
    typer.echo(f"to look at it: shiftgauge monitor --store {store}")


@app.command(epilog="Example: shiftgauge monitor export everything --store watched")
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder")],
    store: Store = STORE,
    database: Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Write rows, labels, sources, windows with revisions and reports, settings, alerts and audit log as files."""
    _check_extra()
    from shiftgauge.monitor.run.export import export as write

    with _opened(store, database) as opened:
        counts = write(opened, folder)
    rows = sum(counts.values())
    _print({"files": counts}, f"{len(counts)} files with {rows:,} rows written to {folder}", as_json)


@tokens.command(epilog="Example: shiftgauge monitor token create nightly --scope ingest --store watched")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for")],
    scope: Annotated[list[str] | None, typer.Option(help="ingest, read or admin; may be repeated")] = None,
    model: Annotated[str | None, typer.Option(help="The only model it is valid for")] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires; never by default")] = None,
    store: Store = STORE,
    database: Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a token and print it once; as soon as there is one, every call needs a token."""
    _check_extra()
    from shiftgauge.monitor.db.tokens import create_token

    with _opened(store, database) as opened:
        token = create_token(opened, name, scope or [], model, days)
    _print({"token": token}, token, as_json)


@tokens.command("list", epilog="Example: shiftgauge monitor token list --store watched")
def list_(store: Store = STORE, database: Database = None, as_json: options.AsJson = False) -> None:
    """List all tokens, without their secrets."""
    _check_extra()
    from shiftgauge.monitor.db.tokens import list_tokens

    with _opened(store, database) as opened:
        all_tokens = [one.to_dict() for one in list_tokens(opened)]
    _print({"tokens": all_tokens}, "\n".join(map(_token_line, all_tokens)) or "no tokens", as_json)


@tokens.command(epilog="Example: shiftgauge monitor token revoke ID --store watched")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `list` prints it")],
    store: Store = STORE,
    database: Database = None,
    as_json: options.AsJson = False,
) -> None:
    """Revoke a token."""
    _check_extra()
    from shiftgauge.monitor.db.tokens import revoke_token

    with _opened(store, database) as opened:
        revoke_token(opened, token_id)
    _print({"revoked": token_id}, f"token {token_id} is revoked", as_json)


def _print(document: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        echo_json(document)
    else:
        typer.echo(text)


@contextmanager
def _opened(folder: Path, database: str | None) -> Iterator[Any]:
    from shiftgauge.monitor.db.store import open_store

    opened = open_store(folder, database)
    try:
        yield opened
    finally:
        opened.close()


def _token_line(token: dict[str, Any]) -> str:
    ends = [f"{word} {token[word]}" for word in ("expires", "revoked") if token[word]]
    where = f"model {token['model']}" if token["model"] else "all models"
    parts = [
        token["id"],
        printable(token["name"]),
        " ".join(token["scopes"]),
        where,
        f"created {token['created']}",
    ]
    return "  ".join([*parts, *ends])


def _check_extra() -> None:
    for module in ("fastapi", "prometheus_client", "sqlalchemy", "uvicorn"):
        optional(module, extra="monitor", purpose="the monitor")
