"""The options about reading SOURCE and TARGET, which all commands that read scores share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from shiftgauge.cli.options import data_option, labels_option, set_parameters
from shiftgauge.cli.screen import note_after, use_option_names
from shiftgauge.errors import FileError, InputError, nearest

if TYPE_CHECKING:
    from shiftgauge.cli.screen import StepProgress
    from shiftgauge.io import ReadOptions
    from shiftgauge.methods import Pair
    from shiftgauge.rows import Rows
    from shiftgauge.samples import Sample, Source, Target

#: Options that apply only to files with named columns.
COLUMN_OPTIONS = (
    *("label_column", "logit_prefix", "prob_prefix", "positive", "negative", "weight_column"),
    *("prediction_column", "id"),
)


class Samples(NamedTuple):
    """SOURCE and TARGET, and what is known of TARGET's labels.

    Attributes:
        source, target: the scores.
        truth: labels to compare answers with, or None.
        labels: labels as evidence: `{row number or id: label}`, or one per row with missing ones; None without.
        labels_chosen: how their rows were chosen: `"random"`, `"unknown"` or a plan.
        labels_file, plan_file, truth_file: where they came from, for messages.
    """

    source: Source
    target: Target | Rows
    truth: Any = None
    labels: Any = None
    labels_chosen: Any = "random"
    labels_file: Path | None = None
    plan_file: Path | None = None
    truth_file: Path | None = None

    def pair(self, calibration: str, function: str, seed: int = 0) -> Pair:
        """SOURCE and TARGET with the labels."""
        from shiftgauge.methods import Pair

        with self.files_in_errors():
            return Pair(
                self.source,
                self.target,
                calibration,
                seed=seed,
                labels=self.labels,
                labels_chosen=self.labels_chosen,
                function=function,
            )

    @contextmanager
    def files_in_errors(self) -> Iterator[None]:
        """Inside, errors about labels, plans and labels to compare with name their files."""
        try:
            yield
        except InputError as problem:
            word, _, text = str(problem).partition(": ")
            files = {"labels": self.labels_file, "labels_chosen": self.plan_file, "truth": self.truth_file}
            file = files.get(word)
            if file is None:
                raise
            raise FileError(f"{file}: {use_option_names(text)}") from None

    def true_error(self) -> tuple[float, int] | None:
        """The error by the labels to compare with, and how many rows have one; None without such labels."""
        from shiftgauge.inference.estimates import true_error
        from shiftgauge.samples import Target
        from shiftgauge.validation import missing_rows

        if self.truth is None:
            return None
        labelled = ~missing_rows(self.truth, "truth")
        target, truth, count = self.target, self.truth, self.target.n
        if not labelled.all() and len(labelled) == target.n and isinstance(target, Target):
            import numpy as np

            rows = np.flatnonzero(labelled)
            if not len(rows):
                raise InputError("--check: no row of TARGET has a label to compare with")
            target, truth, count = target.take(rows), np.asarray(truth)[rows], len(rows)
        with self.files_in_errors():
            return true_error(target, truth, self.source.classes), count


@dataclass(frozen=True)
class KnownLabels:
    """Labels of some rows of TARGET: each field is an option."""

    labels: Annotated[
        Path | None,
        labels_option(help="Labels of some rows: columns id or row, label"),
    ] = None
    use_labels: Annotated[bool, labels_option("--use-labels", help="Use TARGET's own label column")] = False

    def __post_init__(self) -> None:
        if self.labels is not None and self.use_labels:
            raise InputError(f"--labels {self.labels} and --use-labels: wanted one of the two")

    @property
    def present(self) -> bool:
        """Whether there are labels."""
        return self.labels is not None or self.use_labels


@dataclass(frozen=True)
class LabelOptions(KnownLabels):
    """Labels of TARGET as evidence: each field is an option of every command whose answer they change."""

    labels_chosen: Annotated[
        str | None,
        labels_option(help="How chosen: random (default) or unknown"),
    ] = None
    plan: Annotated[
        Path | None,
        labels_option(help="The plan that chose them (label-plan)"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels_chosen not in (None, "random", "unknown"):
            hint = nearest(self.labels_chosen or "", ("random", "unknown"))
            raise InputError(f"--labels-chosen {self.labels_chosen}: wanted random or unknown{hint}")
        if self.plan is not None and self.labels_chosen is not None:
            raise InputError(f"--plan and --labels-chosen {self.labels_chosen}: wanted one of the two")
        for option, value in (("--labels-chosen", self.labels_chosen), ("--plan", self.plan)):
            if value is not None and not self.present:
                raise InputError(f"{option} {value}: there are no labels; pass --labels FILE too")

    def check_method(self, *methods: str | None, marginal: str | None = None) -> None:
        """Refuse labels where something else than auto answers."""
        name = marginal and f"--marginal {marginal}"
        if methods and not any(method in (None, "auto") for method in methods):
            name = f"--method {methods[0]}"
        if self.present and name:
            option = "--labels" if self.labels is not None else "--use-labels"
            raise InputError(f"{option}: labels combine with auto alone; leave {name} out, or the labels")


@dataclass(frozen=True)
class CheckOptions(LabelOptions):
    """As `LabelOptions`, and labels to compare the answer with."""

    check: Annotated[
        bool,
        labels_option("--check", help="Only compare with TARGET's label column"),
    ] = False
    truth: Annotated[Path | None, labels_option(help="Only compare with the labels in this file")] = None


@dataclass(frozen=True)
class InputOptions:
    """How the files are read: each field is an option of every command that reads scores."""

    logits: Annotated[bool, data_option("--logits", help="The scores are logits")] = False
    probs: Annotated[bool, data_option("--probs", help="The scores are probabilities")] = False
    insist: Annotated[bool, data_option("--insist", help="They are logits, even if rows sum to 1")] = False
    source_labels: Annotated[Path | None, data_option(help="SOURCE's labels, in another file")] = None
    label_column: Annotated[str, data_option(help="Labels")] = "label"
    logit_prefix: Annotated[str, data_option(help="Logits")] = "logit_"
    prob_prefix: Annotated[str, data_option(help="Probabilities")] = "prob_"
    positive: Annotated[str | None, data_option(help="One column 'prob': its class")] = None
    negative: Annotated[str | None, data_option(help="One column 'prob': the other class")] = None
    weight_column: Annotated[str | None, data_option(help="Row weights")] = None
    prediction_column: Annotated[str, data_option(help="Decisions")] = "prediction"
    id: Annotated[str | None, data_option("--id", help="Row ids, copied to written rows")] = None
    threshold: Annotated[
        str | None,
        data_option(help="Two classes: decide by 0.9, or NAME=0.9"),
    ] = None
    tolerance: Annotated[float | None, data_option(help="How far probabilities may sum from 1")] = None
    drop_unlabelled: Annotated[
        bool, data_option("--drop-unlabelled", help="Drop SOURCE's rows without a label")
    ] = False
    dask: Annotated[str | None, data_option(help="Dask scheduler that reads TARGET")] = None
    checkpoint: Annotated[
        Path | None,
        data_option(help="Folder that keeps finished passes"),
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
        progress: StepProgress,
        *others: Path | None,
        second: Path | None = None,
        labels: LabelOptions | None = None,
        in_memory: bool = False,
    ) -> Samples:
        """SOURCE and TARGET with its labels. The command reads the files `others` later.

        A TARGET that does not fit in memory is read in passes, unless it must be `in_memory`.
        """
        from shiftgauge import io

        given = CheckOptions() if labels is None else labels
        truth_file = given.truth if isinstance(given, CheckOptions) else None
        check = isinstance(given, CheckOptions) and (given.check or truth_file is not None)
        paths = (source, target, self.source_labels, second, given.labels, truth_file, *others)
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
        sample: Target | Rows
        if in_memory or check or second is not None:
            self._refuse_engines(f"{target} is read into memory")
            sample, own = io.read_checked(target, options, second, like=source_sample)
        else:
            sample, own = self._open_target(target, options, source_sample, progress)
        made = Samples(source_sample, sample)
        if check:
            truth = own if truth_file is None else io.read_labels(truth_file, options, source_sample.classes)
            if truth is None:
                raise InputError(
                    f"{target}: --check was asked for, but there are no labels to check against (--truth FILE)"
                )
            made = made._replace(truth=truth, truth_file=truth_file or target)
        if given.present:
            return _with_labels(made, given, target, own, options)
        if labels is not None and not check:
            _mention_labels(sample, own, isinstance(labels, CheckOptions))
        return made

    def _refuse_engines(self, why: str) -> None:
        """Refuse options about passes if rows are in memory."""
        for option, value in (("--dask", self.dask), ("--checkpoint", self.checkpoint)):
            if value is not None:
                raise InputError(
                    f"{option} {value}: {why}, and this is about passes over large files; leave it out"
                )

    def _open_target(
        self, path: Path, options: ReadOptions, source: Source, progress: StepProgress
    ) -> tuple[Target | Rows, Any]:
        """TARGET, and the labels in it if it is in memory."""
        from shiftgauge.engines import checkpointed, scan
        from shiftgauge.io import open_labelled_target
        from shiftgauge.rows import Rows

        if self.dask is not None:
            how = vars(options.for_target(source))
            rows = scan(path, **how, dask=self.dask, checkpoint=self.checkpoint)
        else:
            target, labels = open_labelled_target(path, options, source)
            if not isinstance(target, Rows):
                self._refuse_engines(f"{path} is read into memory")
                return target, labels
            rows = target
            if self.checkpoint is not None:
                rows.engine = checkpointed(rows.engine, self.checkpoint, path)
        rows.progress = PassProgress(progress)
        return rows, None


def _with_labels(
    samples: Samples, given: LabelOptions, target: Path, own: Any, options: ReadOptions
) -> Samples:
    """The samples with their labels as evidence, and how these were chosen."""
    from shiftgauge import io
    from shiftgauge.inference import LabelPlan
    from shiftgauge.rows import Rows

    sample = samples.target
    labels, file = own, given.labels or target
    notes: tuple[str, ...] = ()
    if given.labels is not None:
        ids = sample.has_ids if isinstance(sample, Rows) else sample.ids is not None
        labels, notes = io.read_target_labels(given.labels, options, sample.classes, ids)
    elif isinstance(sample, Rows):
        labels = io.label_column(sample) if sample.labelled else None
    if labels is None:
        raise InputError(
            f"{target}: --use-labels was asked for, but there is no label column (--label-column NAME), or a file of "
            "labels (--labels FILE)"
        )
    for text in notes:
        note_after(text)
    chosen = given.labels_chosen or "random" if given.plan is None else LabelPlan.load(given.plan)
    return samples._replace(labels=labels, labels_chosen=chosen, labels_file=file, plan_file=given.plan)


def _mention_labels(target: Target | Rows, own: Any, check: bool) -> None:
    """Say that TARGET has labels that nobody asked for."""
    from shiftgauge.rows import Rows
    from shiftgauge.validation import missing_rows

    options = "see --use-labels and --check" if check else "see --use-labels"
    if isinstance(target, Rows):
        if target.labelled:
            note_after(f"TARGET has a label column; {options}")
    elif own is not None:
        count = int((~missing_rows(own, "labels")).sum())
        if count:
            where = f"{count:,} of {target.n:,} rows" if count < target.n else f"all {target.n:,} rows"
            note_after(f"TARGET has labels in {where}; {options}")


class PassProgress:
    """Reports the progress of each pass over the rows."""

    def __init__(self, progress: StepProgress) -> None:
        self._progress, self._before, self._passes = progress, 0, 1

    def __call__(self, done: int, rows: int) -> None:
        """Report that so many of the rows are done."""
        self._passes += done <= self._before
        self._before = done
        self._progress(f"pass {self._passes} over {rows:,} rows", done, rows)


def reads_files(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a class of options, such as `inputs`, by one option for each of its fields."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups = {
        p.name: p.annotation for p in own if isinstance(p.annotation, type) and is_dataclass(p.annotation)
    }
    options = {
        name: list(inspect.signature(group, eval_str=True).parameters.values())
        for name, group in groups.items()
    }

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in options[name]})
        command(**values)

    set_parameters(run, [option for p in own for option in options.get(p.name, [p])])
    return run


def option_names(options: type) -> list[str]:
    """The names of the options of a class of options, as in `context.params`."""
    return [field.name for field in fields(options)]


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
