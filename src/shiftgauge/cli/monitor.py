"""`shiftgauge monitor`: every model, every window, with the labels that come late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli import files
from shiftgauge.cli.screen import working
from shiftgauge.errors import InputError, MissingDependencyError, printable
from shiftgauge.results import SCHEMA

app = typer.Typer(help="Watch deployed models: estimates by window, late labels, alerts, pages.")
Data = Annotated[Path, typer.Option("--data", help="The folder of everything")]
Database = Annotated[
    str | None,
    typer.Option("--database", help="postgresql://USER@HOST/NAME; SQLite in the folder by default"),
]
DATA = Path("shiftgauge-monitor")


@app.callback(invoke_without_command=True)
def monitor(
    context: typer.Context,
    data: Data = DATA,
    database: Database = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond this machine only with tokens")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one")] = 8123,
    workers: Annotated[int, typer.Option(help="Processes that estimate; 0 if they run elsewhere", min=0)] = 1,
    demo: Annotated[bool, typer.Option("--demo", help="Fill an empty folder with 60 days first")] = False,
) -> None:
    """Serve the monitor: the API, pages and a worker, on this machine unless --host says otherwise."""
    if context.invoked_subcommand is not None:
        return
    _needs_extra()
    from shiftgauge.monitor.run.serve import serve

    if demo:
        _fill(data, database)
    serve(data, database, host=host, port=port, workers=workers, started=_started)


def _started(address: str) -> None:
    typer.echo(f"shiftgauge monitor: {address} (Ctrl-C stops it)")


def _fill(data: Path, database: str | None) -> None:
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.demo import fill, fill_folder

    with working() as say:

        def tell(day: str) -> None:
            say(f"60 days of a model whose world changes: {day}")

        if database is None:
            made = fill_folder(data, tell)
        else:
            store = open_store(data, database)
            made = fill(store, tell)
            store.close()
    if not made:
        typer.echo(f"{data}: holds models already; shown as they are, without the demo", err=True)


@app.command()
def worker(
    data: Data = DATA,
    database: Database = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, then stop: for cron")] = False,
    as_json: files.AsJson = False,
) -> None:
    """Estimate, without serving: any number of these may share a PostgreSQL database and a folder."""
    _needs_extra()
    from shiftgauge.monitor.run.serve import run_worker, run_worker_once

    if not once:
        return run_worker(str(data), database)
    done = run_worker_once(data, database)
    typer.echo(json.dumps({"schema": SCHEMA, "jobs": done}) if as_json else f"{done} jobs done")


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="Scores with labels")],
    time: Annotated[str, typer.Option("--time", help="The column of times")],
    data: Data = DATA,
    database: Database = None,
    source: Annotated[
        Path | None, typer.Option(help="Labelled scores from before; else the first rows")
    ] = None,
    model: Annotated[str, typer.Option(help="The model's name in the monitor")] = "replay",
    window: Annotated[
        str, typer.Option(help="hour, day, week, or a number of rows such as '1000 rows'")
    ] = "day",
    level: Annotated[float, typer.Option(help="Of ranges, adaptive ones too")] = 0.9,
    delay: Annotated[float, typer.Option(help="How many days late the labels come")] = 0.0,
    first: Annotated[float, typer.Option(help="The share of rows that become the source")] = 0.2,
    as_json: files.AsJson = False,
) -> None:
    """Let a labelled file happen again, and see what the monitor would have said, beside what turned out."""
    _needs_extra()
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.replay import replay as run

    store = open_store(data, database)
    settings: dict[str, Any] = {"window": window, "level": level}
    with working() as say:
        found = run(
            store,
            file,
            time,
            source=source,
            model=model,
            settings=settings,
            first=first,
            delay_days=delay,
            say=say,
        )
    store.close()
    if as_json:
        typer.echo(json.dumps({"schema": SCHEMA, **vars(found)}))
        return
    coverage = (
        f"{found.covered} of {found.judged} windows" if found.judged else "no window with enough labels"
    )
    typer.echo(f"{found.rows:,} rows in {found.windows} windows of model {found.model}")
    typer.echo(f"the adaptive range covered the observed error in {coverage}; asked for {found.level:.0%}")
    typer.echo(f"to look at it: shiftgauge monitor --data {data}")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A new folder")],
    data: Data = DATA,
    database: Database = None,
    as_json: files.AsJson = False,
) -> None:
    """Write everything as Parquet files: rows, labels, windows and all their revisions, alerts."""
    _needs_extra()
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.run.export import export as write

    store = open_store(data, database)
    counts = write(store, folder)
    store.close()
    if as_json:
        typer.echo(json.dumps({"schema": SCHEMA, "files": counts}))
    else:
        typer.echo(f"{len(counts)} files with {sum(counts.values()):,} rows written to {folder}")


@app.command()
def token(
    name: Annotated[
        str | None, typer.Argument(help="What it is for; with --revoke, the token's id; not with --list")
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(help="ingest, read or admin; may be repeated")] = None,
    model: Annotated[str | None, typer.Option(help="The only model it is good for")] = None,
    days: Annotated[float | None, typer.Option(help="How long it holds; for ever by default")] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="End the token with this id")] = False,
    every: Annotated[bool, typer.Option("--list", help="List all tokens, without their secrets")] = False,
    data: Data = DATA,
    database: Database = None,
    as_json: files.AsJson = False,
) -> None:
    """Make a token, and show it this once; from the first one on, every call needs one."""
    _needs_extra()
    from shiftgauge.monitor.db.store import open_store
    from shiftgauge.monitor.db.tokens import create_token, list_tokens, revoke_token

    if every == (name is not None):
        raise InputError("wanted NAME and --scope for a new token, an id and --revoke, or --list alone")
    store = open_store(data, database)
    said: dict[str, Any]
    if name is None:
        tokens = [one.to_dict() for one in list_tokens(store)]
        said, shown = {"tokens": tokens}, "\n".join(map(_token_line, tokens)) or "no tokens"
    elif revoke:
        revoke_token(store, name)
        said, shown = {"revoked": name}, f"token {name} holds no longer"
    else:
        shown = create_token(store, name, scope or [], model, days)
        said = {"token": shown}
    typer.echo(json.dumps({"schema": SCHEMA, **said}) if as_json else shown)
    store.close()


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


def _needs_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as problem:
        raise MissingDependencyError(
            f"the monitor needs {problem.name}; install it with: pip install 'shiftgauge[monitor]'"
        ) from None
