"""The options about reading SOURCE and TARGET, which all commands that read scores share."""

from __future__ import annotations

import fnmatch
import functools
import glob
import inspect
import os
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

from shiftgauge.cli.options import data_option, set_parameters
from shiftgauge.errors import InputError

if TYPE_CHECKING:
    from shiftgauge.cli.screen import Progress
    from shiftgauge.io import ReadOptions
    from shiftgauge.rows import Rows
    from shiftgauge.samples import Sample, Source, Target

#: Options that apply only to files with named columns.
COLUMN_OPTIONS = (
    *("label_column", "logit_prefix", "prob_prefix", "positive", "negative", "weight_column"),
    *("prediction_column", "id"),
)


class Samples(NamedTuple):
    """SOURCE, TARGET, and TARGET's labels if answers are compared with them."""

    source: Source
    target: Target | Rows
    truth: Any = None

    @property
    def target_in_memory(self) -> bool:
        """Whether TARGET is in memory; else it is read in passes."""
        from shiftgauge.samples import Target

        return isinstance(self.target, Target)


@dataclass(frozen=True)
class InputOptions:
    """How the files are read: each field is an option of every command that reads scores."""

    logits: Annotated[bool, data_option("--logits", help="The scores are logits")] = False
    probs: Annotated[bool, data_option("--probs", help="The scores are probabilities")] = False
    insist: Annotated[
        bool, data_option("--insist", help="They are logits, though they look like probabilities")
    ] = False
    source_labels: Annotated[Path | None, data_option(help="SOURCE's labels, in a separate file")] = None
    label_column: Annotated[str, data_option(help="The label column of a table")] = "label"
    logit_prefix: Annotated[str, data_option(help="Prefix of logit columns")] = "logit_"
    prob_prefix: Annotated[str, data_option(help="Prefix of probability columns")] = "prob_"
    positive: Annotated[str | None, data_option(help="Two classes, one column 'prob': its class")] = None
    negative: Annotated[str | None, data_option(help="Two classes, one column 'prob': the other class")] = (
        None
    )
    weight_column: Annotated[str | None, data_option(help="The column of row weights")] = None
    prediction_column: Annotated[
        str, data_option(help="The column of deployed predictions, read if it exists; '' for none")
    ] = "prediction"
    id: Annotated[str | None, data_option("--id", help="The column of row ids, copied to tables of rows")] = (
        None
    )
    threshold: Annotated[
        str | None,
        data_option(help="Two classes: predict the second, or NAME=, from this probability on"),
    ] = None
    tolerance: Annotated[float | None, data_option(help="How far probabilities may sum from 1")] = None
    drop_unlabelled: Annotated[
        bool, data_option("--drop-unlabelled", help="Drop SOURCE's rows without a label")
    ] = False
    dask: Annotated[
        str | None, data_option(help="Address of a Dask scheduler whose workers read TARGET (extra dask)")
    ] = None
    checkpoint: Annotated[
        Path | None,
        data_option(help="A folder for finished passes over a large TARGET: a killed run continues there"),
    ] = None

    def __post_init__(self) -> None:
        if self.logits and self.probs:
            raise InputError("--logits and --probs were both given; wanted one: what are the scores?")

    def read_options(self, *paths: Path | None) -> ReadOptions:
        """The options for reading these files; refuses options about columns if no file has named columns."""
        from shiftgauge.io import ReadOptions, is_table

        defaults = {f.name: f.default for f in fields(self)}
        chosen = [name for name in COLUMN_OPTIONS if getattr(self, name) != defaults[name]]
        if chosen and not any(is_table(path) for path in paths if path is not None):
            raise InputError(
                f"--{chosen[0].replace('_', '-')} is about the columns of a table, and no file is one; "
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
            threshold=_parse_threshold(self.threshold),
            insist=self.insist,
            drop_unlabelled=self.drop_unlabelled,
            positive=self.positive,
            negative=self.negative,
            tolerance=self.tolerance,
        )

    def read_source(self, path: Path) -> Source:
        """SOURCE alone."""
        from shiftgauge.io import open_source

        self._refuse_engines(f"{path} is read once")
        return open_source(path, self.read_options(path, self.source_labels), self.source_labels)

    def read(
        self,
        source: Path,
        target: Path,
        progress: Progress,
        *others: Path | None,
        second: Path | None = None,
        target_labels: Path | None = None,
        check: bool = False,
        in_memory: bool = False,
    ) -> Samples:
        """SOURCE and TARGET; also TARGET's labels if `check`. The command reads the files `others` later.

        A TARGET that does not fit in memory is read in passes, unless it must be `in_memory`.
        """
        from shiftgauge import io

        if target_labels is not None and not check:
            raise InputError(f"--target-labels {target_labels}: they are used by --check alone; pass it too")
        paths = (source, target, self.source_labels, second, target_labels, *others)
        if sum(str(path) == "-" for path in paths) > 1:
            raise InputError(
                "-: standard input was named twice; wanted one of the files there, the others on disk"
            )
        options = self.read_options(*paths)
        progress(f"reading {source}")
        source_sample = io.open_source(  # ids are those of TARGET
            source, replace(options, id=None), self.source_labels, PassProgress(progress)
        )
        progress(f"reading {target}")
        if not (in_memory or check or second is not None):
            return Samples(source_sample, self._open_target(target, options, source_sample, progress))
        self._refuse_engines(f"{target} is read into memory")
        target_sample, truth = io.read_checked(target, options, second, like=source_sample)
        if target_labels is not None:
            if truth is not None:
                raise io.two_sets_of_labels(target, target_labels, "--target-labels")
            truth = io.read_labels(target_labels, options, target_sample.classes)
        if check and truth is None:
            raise InputError(f"{target}: --check was asked for, but there are no labels to check against")
        return Samples(source_sample, target_sample, truth if check else None)

    def _refuse_engines(self, why: str) -> None:
        """Refuse options about passes if rows are in memory."""
        for option, value in (("--dask", self.dask), ("--checkpoint", self.checkpoint)):
            if value is not None:
                raise InputError(
                    f"{option} {value}: {why}, and this is about passes over large files; leave it out"
                )

    def _open_target(
        self, path: Path, options: ReadOptions, source: Source, progress: Progress
    ) -> Target | Rows:
        from shiftgauge.engines import checkpointed, open_scan
        from shiftgauge.io import open_target
        from shiftgauge.rows import Rows

        if self.dask is not None:
            rows = open_scan(path, options.for_target(source), dask=self.dask, checkpoint=self.checkpoint)
        else:
            target = open_target(path, options, source)
            if not isinstance(target, Rows):
                self._refuse_engines(f"{path} is read into memory")
                return target
            rows = target
            if self.checkpoint is not None:
                rows.engine = checkpointed(rows.engine, self.checkpoint, path)
        rows.progress = PassProgress(progress)
        return rows


class PassProgress:
    """Reports the progress of passes over the rows: how many are done, how fast, and the time left."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._start, self._before, self._passes = progress, 0.0, 0, 0

    def __call__(self, done: int, rows: int) -> None:
        """Report that so many of the rows are done."""
        now = time.monotonic()
        if done <= self._before or not self._passes:
            self._start, self._passes = now, self._passes + 1
        self._before = done
        rate = done / max(now - self._start, 1e-9)
        bar = ("#" * (20 * done // rows)).ljust(20, ".")
        self._progress(
            f"pass {self._passes} [{bar}] {done:,} of {rows:,} rows, {rate:,.0f}/s, {(rows - done) / rate:,.0f} s left"
        )


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter `inputs` by one option for each field of `InputOptions`."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    hints = get_type_hints(InputOptions, include_extras=True)
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(InputOptions)
    ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        command(inputs=InputOptions(**{option.name: values.pop(option.name) for option in options}), **values)

    set_parameters(run, [*(p for p in own if p.name != "inputs"), *options])
    return run


def _parse_threshold(text: str | None) -> float | dict[Hashable, float] | None:
    """`0.9`, or `fraud=0.9`."""
    if text is None:
        return None
    name, _, number = text.rpartition("=")
    try:
        threshold = float(number)
    except ValueError:
        raise InputError(f"--threshold {text}: wanted a fraction such as 0.9, or NAME=0.9") from None
    return {name: threshold} if name else threshold


def check_output(option: str, out: Path, inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write to a file that is an input, or into an input folder or glob.

    Args:
        option: the option that named the output.
        out: the file to write.
        inputs: every file, folder and glob that the command reads; other texts, such as names, are ignored.
    """
    for path in inputs:
        if path is not None and _is_read(out, Path(path)):
            raise InputError(f"{option} {out}: that is an input, which would be lost; wanted another file")


def _is_read(out: Path, path: Path) -> bool:
    """Whether reading the path reads the output, which may not exist yet."""
    if path.is_dir():
        return any(Path(os.path.realpath(path)) in place.parents for place in _locations(out))
    if path.exists():
        return out.exists() and out.samefile(path)
    return glob.has_magic(str(path)) and _matches(out, os.path.join(os.curdir, path))


def _locations(out: Path) -> set[Path]:
    """Where the file will be: by its name, and if that is a link, where it points; without links in folders."""
    return {Path(os.path.realpath(out.parent), out.name), Path(os.path.realpath(out))}


def _matches(out: Path, pattern: str) -> bool:
    """Whether the glob matches the output, or will once it exists. The pattern begins with a folder."""
    existing = filter(os.path.exists, glob.iglob(pattern, recursive=True))
    if out.exists() and any(out.samefile(path) for path in existing):
        return True
    folder, last = os.path.split(pattern)
    if last == "**":
        folder, last = pattern, "*"
    folders = {Path(os.path.realpath(path)) for path in glob.iglob(folder, recursive=True)}
    return any(place.parent in folders and _matches_name(place.name, last) for place in _locations(out))


def _matches_name(name: str, pattern: str) -> bool:
    """Whether the last part of a glob matches the name; hidden files only if it begins with a dot too."""
    hidden = name.startswith(".") and not pattern.startswith(".")
    return fnmatch.fnmatch(name, pattern) and not hidden


def read_column(path: Path, name: str, sample: Sample | Rows) -> Any:
    """A column or key with one value per row of the sample; times may be binned (`time:1d`).

    Rows that the sample dropped are dropped here too. For rows that are read in passes it is the name of the column,
    which is read with them.
    """
    from shiftgauge.io import read_groups
    from shiftgauge.rows import Rows

    if isinstance(sample, Rows):
        return name
    if sample.kept is None:
        return read_groups(path, [name], sample.n)[name]
    return read_groups(path, [name])[name][sample.kept]


def source_columns(path: Path, names: Iterable[str], source: Source) -> tuple[dict[str, Any], list[str]]:
    """Those of TARGET's columns that SOURCE has too, and warnings about those that cannot be read there."""
    from shiftgauge.errors import ShiftgaugeError
    from shiftgauge.io import has_column

    columns, warnings = {}, []
    for name in names:
        if has_column(path, name):
            try:
                columns[name] = read_column(path, name, source)
            except ShiftgaugeError as problem:
                warnings.append(f"intervals do not include the error of the scores on the source: {problem}")
    return columns, warnings


def read_marginal(name: str, source: Source) -> Any:
    """The name of a marginal, or the label shares of a file, for the classes of the source."""
    from shiftgauge import io
    from shiftgauge.labelshift import MARGINALS, check_marginal

    if name in MARGINALS:
        return name
    if not Path(name).exists() and not Path(name).suffix:
        check_marginal(name)
    return io.read_marginal(name, source.classes, source.k)
