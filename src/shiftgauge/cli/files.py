"""The options that say how SOURCE and TARGET are to be read, shared by the verbs."""

from __future__ import annotations

import fnmatch
import functools
import glob
import inspect
import os
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from shiftgauge.cli.options import (
    AsJson,
    Calibration,
    Check,
    Level,
    MarginalName,
    Second,
    Seed,
    SourceFile,
    TargetFile,
    at_least,
)
from shiftgauge.errors import InputError

if TYPE_CHECKING:
    from shiftgauge.cli.screen import Say
    from shiftgauge.io import ReadOptions
    from shiftgauge.rows import Rows
    from shiftgauge.samples import Sample, Source, Target

__all__ = [
    "AsJson",
    "Calibration",
    "Check",
    "Level",
    "MarginalName",
    "ReadingOptions",
    "Second",
    "Seed",
    "SourceFile",
    "TargetFile",
    "at_least",
    "column_of",
    "marginal_of",
    "on_source",
    "reads",
    "refuse_overwriting",
]


#: The options that mean something only where there are columns with names.
ABOUT_COLUMNS = (
    *("label_column", "logit_prefix", "prob_prefix", "positive", "negative", "weight_column"),
    *("prediction_column", "id"),
)


@dataclass(frozen=True)
class ReadingOptions:
    """How the files are to be read: each field is an option of every verb that reads scores."""

    logits: Annotated[bool, typer.Option("--logits", help="The scores are logits")] = False
    probs: Annotated[bool, typer.Option("--probs", help="The scores are probabilities")] = False
    insist: Annotated[
        bool, typer.Option("--insist", help="They are logits, though they look like probabilities")
    ] = False
    labels: Annotated[
        Path | None, typer.Option("--labels", help="SOURCE's labels, where they are in a file of their own")
    ] = None
    label_column: Annotated[str, typer.Option(help="The label column of a table")] = "label"
    logit_prefix: Annotated[str, typer.Option(help="What logit columns begin with")] = "logit_"
    prob_prefix: Annotated[str, typer.Option(help="What probability columns begin with")] = "prob_"
    positive: Annotated[str | None, typer.Option(help="Two classes, one column 'prob': its class")] = None
    negative: Annotated[
        str | None,
        typer.Option(help="Two classes, one column 'prob': the other class"),
    ] = None
    weight_column: Annotated[str | None, typer.Option(help="A table's column of row weights")] = None
    prediction_column: Annotated[
        str,
        typer.Option(help="A table's column of deployed decisions, read where it is there; '' for none"),
    ] = "prediction"
    id: Annotated[
        str | None,
        typer.Option("--id", help="A table's column that rows are known by; it goes where rows go"),
    ] = None
    threshold: Annotated[
        str | None,
        typer.Option(help="Two classes: decide for the second, or NAME=, from this probability on"),
    ] = None
    tolerance: Annotated[float | None, typer.Option(help="How far probabilities may sum from 1")] = None
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Leave out SOURCE's rows without a label")
    ] = False
    dask: Annotated[
        str | None,
        typer.Option(
            help="A Dask scheduler's address, whose workers read TARGET's files; pip install 'shiftgauge[dask]'"
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder that keeps finished passes over a large TARGET: a killed run goes on there"
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.logits and self.probs:
            raise InputError("--logits and --probs were both given; wanted one: what are the scores?")

    def form(self, *paths: Path | None) -> ReadOptions:
        """What was said of these files; refuses options about columns where no file has any."""
        from shiftgauge.io import ReadOptions, is_table

        columns = [f for f in fields(self) if f.name in ABOUT_COLUMNS]
        said = [f.name for f in columns if getattr(self, f.name) != f.default]
        if said and not any(is_table(path) for path in paths if path is not None):
            raise InputError(
                f"--{said[0].replace('_', '-')} is about the columns of a table, and no file is one; "
                "an .npz has the keys labels, weights and predictions"
            )
        return ReadOptions(
            kind="logits" if self.logits else "probs" if self.probs else None,
            logit_prefix=self.logit_prefix,
            prob_prefix=self.prob_prefix,
            label=self.label_column,
            weight=self.weight_column,
            prediction=self.prediction_column or None,
            id=self.id,
            threshold=_threshold(self.threshold),
            insist=self.insist,
            drop_unlabelled=self.drop_unlabelled,
            positive=self.positive,
            negative=self.negative,
            tolerance=self.tolerance,
        )

    def source(self, path: Path) -> Source:
        """SOURCE alone."""
        from shiftgauge.io import open_source

        self._refuse_engines(f"{path} is read once")
        return open_source(path, self.form(path, self.labels), self.labels)

    def both(
        self,
        source: Path,
        target: Path,
        say: Say,
        *others: Path | None,
        second: Path | None = None,
        target_labels: Path | None = None,
        check: bool = False,
        whole: bool = False,
    ) -> tuple[Source, Target | Rows, Any]:
        """SOURCE, TARGET, and TARGET's labels if they are to be checked against; `others` are read later.

        A TARGET with too many rows for memory is read in passes, unless it is wanted `whole`.
        """
        from shiftgauge import io

        if target_labels is not None and not check:
            raise InputError(f"--target-labels {target_labels}: they are used by --check alone; pass it too")
        _refuse_two_from_stdin(source, target, self.labels, second, target_labels, *others)
        form = self.form(source, target, self.labels, second, target_labels, *others)
        say(f"reading {source}")
        # ids are those of TARGET's rows
        known = io.open_source(source, form.but(id=None), self.labels, Pace(say))
        say(f"reading {target}")
        if not (whole or check or second is not None):
            return known, self._target(target, form, known, say), None
        self._refuse_engines(f"{target} is read whole")
        unknown, truth = io.read_checked(target, form, second, like=known)
        if target_labels is not None:
            if truth is not None:
                raise io.two_sets_of_labels(target, target_labels, "--target-labels")
            truth = io.read_labels(target_labels, form, unknown.classes)
        if check and truth is None:
            raise InputError(f"{target}: --check was asked for, but there are no labels to check against")
        return known, unknown, truth if check else None

    def _refuse_engines(self, why: str) -> None:
        """Options about passes change nothing if rows are in memory."""
        for option, value in (("--dask", self.dask), ("--checkpoint", self.checkpoint)):
            if value is not None:
                raise InputError(
                    f"{option} {value}: {why}, and this is about scans of large ones; leave it out"
                )

    def _target(self, path: Path, form: ReadOptions, source: Source, say: Say) -> Target | Rows:
        """TARGET in memory; or its rows, if they are too many or workers are to read them."""
        from shiftgauge.engines import checkpointed, scan
        from shiftgauge.io import open_target
        from shiftgauge.rows import Rows

        if self.dask is not None:
            rows = scan(path, form.for_target(source), dask=self.dask, checkpoint=self.checkpoint)
        else:
            opened = open_target(path, form, source)
            if not isinstance(opened, Rows):
                self._refuse_engines(f"{path} is read whole")
                return opened
            rows = opened
            if self.checkpoint is not None:
                rows.engine = checkpointed(rows.engine, self.checkpoint, path)
        rows.progress = Pace(say)
        return rows


class Pace:
    """How far a pass over the rows has come, how fast, and how long it will take, as a step of the work."""

    def __init__(self, say: Say) -> None:
        self._say, self._begun, self._before, self._passes = say, 0.0, 0, 0

    def __call__(self, done: int, rows: int) -> None:
        """So many of the rows are done."""
        now = time.monotonic()
        if done <= self._before or not self._passes:
            self._begun, self._passes = now, self._passes + 1
        self._before = done
        spent = max(now - self._begun, 1e-9)
        rate = done / spent
        bar = ("#" * (20 * done // rows)).ljust(20, ".")
        self._say(
            f"pass {self._passes} [{bar}] {done:,} of {rows:,} rows, {rate:,.0f}/s, {(rows - done) / rate:,.0f} s left"
        )


def reads(verb: Callable[..., None]) -> Callable[..., None]:
    """Make the verb's parameter `reading` one option for each of its fields.

    Parameters that the verb lists behind `reading` are more files of labels: they come after --labels.
    """
    signature = inspect.signature(verb, eval_str=True)
    own = list(signature.parameters.values())
    hints = get_type_hints(ReadingOptions, include_extras=True)
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(ReadingOptions)
    ]
    here = [p.name for p in own].index("reading")
    there = [p.name for p in options].index("labels") + 1
    shown = [*own[:here], *options[:there], *own[here + 1 :], *options[there:]]

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        verb(reading=ReadingOptions(**{option.name: given.pop(option.name) for option in options}), **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _threshold(text: str | None) -> float | dict[Hashable, float] | None:
    """`0.9`, or `fraud=0.9`."""
    if text is None:
        return None
    name, _, number = text.rpartition("=")
    try:
        least = float(number)
    except ValueError:
        raise InputError(f"--threshold {text}: wanted a fraction such as 0.9, or NAME=0.9") from None
    return {name: least} if name else least


def _refuse_two_from_stdin(*paths: Path | None) -> None:
    if sum(str(path) == "-" for path in paths) > 1:
        raise InputError(
            "-: standard input was named twice; wanted one of the files there, the others on disk"
        )


def refuse_overwriting(out: Path, inputs: Iterable[str | Path | None], option: str = "--rows") -> None:
    """Refuse to write to a file that is an input, or into a folder or a pattern that is one.

    Args:
        out: where the command is to write.
        inputs: every file, folder and glob that it reads; names that are no files, such as a marginal's, pass.
        option: what named the output.
    """
    for given in inputs:
        if given is not None and _is_read(out, Path(given)):
            raise InputError(f"{option} {out}: that is an input, which would be lost; wanted another file")


def _is_read(out: Path, path: Path) -> bool:
    """Whether the path that is read includes the file that is to be written, there already or not yet."""
    if path.is_dir():
        return any(Path(os.path.realpath(path)) in place.parents for place in _places(out))
    if path.exists():
        return out.exists() and out.samefile(path)
    return glob.has_magic(str(path)) and _is_found(out, os.path.join(os.curdir, path))


def _places(out: Path) -> set[Path]:
    """Where the file will stand: under its name and, where that is a link, where it leads; folders are real ones."""
    return {Path(os.path.realpath(out.parent), out.name), Path(os.path.realpath(out))}


def _is_found(out: Path, pattern: str) -> bool:
    """Whether the pattern finds the file, or will: one of its folders holds it and its last part fits the name.

    The pattern begins with a folder: `**` alone would not find the one that it begins in.
    """
    there = filter(os.path.exists, glob.iglob(pattern, recursive=True))
    if out.exists() and any(out.samefile(found) for found in there):
        return True
    folder, last = os.path.split(pattern)
    if last == "**":
        folder, last = pattern, "*"
    folders = {Path(os.path.realpath(found)) for found in glob.iglob(folder, recursive=True)}
    return any(place.parent in folders and _fits(place.name, last) for place in _places(out))


def _fits(name: str, pattern: str) -> bool:
    """Whether a pattern without folders finds the name: hidden ones only where it says so."""
    hidden = name.startswith(".") and not pattern.startswith(".")
    return fnmatch.fnmatch(name, pattern) and not hidden


def column_of(path: Path, name: str, rows: int | Sample | Rows) -> Any:
    """A column or key that says something of each of the scores' rows; times may be binned (`time:1d`).

    Of rows that are read in passes, its name: it is read along with them.

    Args:
        path: the file that holds it.
        name: the column, or the column and the width of its bins.
        rows: the number of rows; or the sample, so that rows it dropped are dropped here too.
    """
    from shiftgauge.io import read_groups
    from shiftgauge.rows import Rows

    if isinstance(rows, Rows):
        return name
    if isinstance(rows, int):
        return read_groups(path, [name], rows)[name]
    whole = rows.n if rows.kept is None else None
    values = read_groups(path, [name], whole)[name]
    return values if rows.kept is None else values[rows.kept]


def on_source(path: Path, names: Iterable[str], source: Source) -> tuple[dict[str, Any], list[str]]:
    """Those of TARGET's columns that SOURCE has too, and what is to be said of those that cannot be read there."""
    from shiftgauge.errors import ShiftgaugeError
    from shiftgauge.io import has_column

    found, unread = {}, []
    for name in names:
        if has_column(path, name):
            try:
                found[name] = column_of(path, name, source)
            except ShiftgaugeError as problem:
                unread.append(f"intervals do not hold what the scores missed on the source: {problem}")
    return found, unread


def marginal_of(name: str, source: Source) -> Any:
    """A marginal by name, or from a file, for the classes of the source."""
    from shiftgauge.io import read_marginal
    from shiftgauge.labelshift import MARGINALS, check_marginal

    if name in MARGINALS:
        return name
    if not Path(name).exists() and not Path(name).suffix:
        check_marginal(name)
    return read_marginal(name, source.classes, source.k)
