"""`shiftgauge label-plan SOURCE TARGET`: which rows to label; `label-progress PLAN LABELS`: when to stop."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.outputs import check_no_labels, check_output, new_file
from shiftgauge.cli.records import command_line, echo_json, print_json
from shiftgauge.cli.screen import console, plain_table, print_lines, print_warnings, show_progress, wrapped
from shiftgauge.errors import FileError, InputError
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.inference import LabelPlan
    from shiftgauge.validation.target_labels import TargetLabels

#: Rows shown on the screen.
SHOWN = 5
Count = Annotated[
    int | None,
    typer.Option(
        "--number", "-n", help="How many new rows to label", show_default="20; all rows with an aim"
    ),
]
UntilWidth = Annotated[
    float | None, typer.Option(help="Aim: label until the range is this narrow, such as 0.1")
]
Decide = Annotated[
    float | None, typer.Option(help="Aim: label until it is clear whether the error is above this")
]
SavePlan = Annotated[
    Path | None, options.output_option(help="Write the plan (.json), for --plan and label-progress")
]
PlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN", help="The plan, as label-plan --save-plan wrote it")
]
LabelsFile = Annotated[
    Path,
    typer.Argument(metavar="LABELS", help="The labels so far: a file with the columns id or row, and label"),
]


@files.reads_files
def label_plan(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.KnownLabels,
    number: Count = None,
    until_width: UntilWidth = None,
    decide: Decide = None,
    out: options.Out = None,
    save_plan: SavePlan = None,
    level: options.Level = RANGE_LEVEL,
    calibration: options.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Choose which rows of TARGET to label next; their labels make the estimate better.

    The rows are written to --out (.csv, .parquet, .arrow or .npz). Fill in the
    column label, and pass the file to estimate --labels. Rows that have labels
    already (--labels, of a random sample) are in the file too.
    """
    from shiftgauge import io
    from shiftgauge.inference import label_plan as plan_labels

    if until_width is not None and decide is not None:
        raise InputError("--until-width and --decide: wanted one aim")
    if labelled.present and (until_width is not None or decide is not None):
        raise InputError("--until-width and --decide put all rows in one order; leave the labels out")
    _check_outputs(
        out, save_plan, [source, target, inputs.source_labels, labelled.labels], inputs.label_column
    )
    known = files.LabelOptions(labelled.labels, labelled.use_labels) if labelled.present else None
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=known)
        progress("planning")
        pair = samples.pair(calibration, "label-plan", seed)
        labels = pair.labels
        plan = plan_labels(
            pair if labels is None else pair.with_target(samples.target),  # without the labels
            n=number if labels is None else samples.target.n,
            until_width=until_width,
            decide=decide,
            level=level,
            proportions=proportions,
            seed=seed,
        )
        sentence, names = plan.sentence(), [""] * len(plan.rows)
        if labels is not None:
            with samples.files_in_errors():
                plan, names = _add_rows(plan, labels, number, seed)
            count = names.count("")
            sentence = f"label {count:,} more rows; {len(labels.keys):,} have a label already"
        if out is not None:
            io.write_table(out, {**plan.table(), "label": names})
        if save_plan is not None:
            plan.save(save_plan)
    if as_json:
        print_json({**plan.to_dict(), "sentence": sentence}, context, samples.source, samples.target)
    else:
        _print(plan, sentence, out, save_plan, context, labels)


def _add_rows(
    every: LabelPlan, labels: TargetLabels, number: int | None, seed: int
) -> tuple[LabelPlan, list[str]]:
    """A plan of new rows before the labelled ones, and their labels, which are empty for the new rows.

    New rows are drawn as in a plan, but only from those without a label. If the labelled rows are a random sample, all
    rows of the plan together are one too.

    Args:
        every: a plan with all rows of the target.
        labels: of some of these rows.
        number: how many new rows.
        seed: of the draw.
    """
    import numpy as np

    from shiftgauge.inference.label_plans import LABELS, expected_range_of, spread_rows
    from shiftgauge.validation import check_count

    if labels.by_id:  # rows that are read in passes
        assert every.ids is not None
        places = labels.by_row(every.ids).keys
    else:
        places = np.argsort(every.rows)[labels.keys]
    rest = np.setdiff1d(np.arange(every.n_target), places)
    if not len(rest):
        raise InputError("labels: every row of TARGET has a label; there is nothing left to label")
    count = min(LABELS, len(rest)) if number is None else number
    check_count(count, "-n", 1, most=len(rest))
    rng = np.random.default_rng(seed)
    at = np.concatenate([rest[spread_rows(every.error_probability[rest], count, rng)], places])
    plan = replace(
        every,
        rows=every.rows[at],
        ids=None if every.ids is None else every.ids[at],
        predictions=every.predictions[at],
        error_probability=every.error_probability[at],
        expected_range=expected_range_of(every.prior, len(at), every.n_target, every.range.level),
    )
    return plan, [""] * count + [str(every.classes[j]) for j in labels.classes]


def _check_outputs(out: Path | None, save_plan: Path | None, paths: list[Any], label: str) -> None:
    """Refuse outputs that cannot be written, are inputs, or would replace labels."""
    from shiftgauge.io.write import check_ending
    from shiftgauge.storage import check_writable

    if out is not None:
        check_ending(out)
        check_output("--out", out, paths)
        check_no_labels("--out", out, label)
    if save_plan is not None:
        if save_plan.suffix.lower() != ".json":
            raise FileError(f"--save-plan {save_plan}: wanted a name ending in .json")
        check_output("--save-plan", check_writable(save_plan), paths)


def _print(
    plan: LabelPlan,
    sentence: str,
    out: Path | None,
    save_plan: Path | None,
    context: typer.Context,
    labels: TargetLabels | None,
) -> None:
    screen = console()
    print_lines(screen, wrapped("", sentence, "  "), "bold")
    head, lines = plan.table_rows()
    new = len(plan.rows) - (0 if labels is None else len(labels.keys))
    table = plain_table((heading.replace("_", " ") for heading in head), left=0)
    for line in lines[: min(SHOWN, new)]:
        table.add_row(*line)
    screen.print(table)
    if new > SHOWN:
        screen.print(f"and {new - SHOWN:,} more")
    print_warnings(screen, [text for text in plan.warnings if "(shiftgauge label-plan)" not in text])
    file = out or ("rows.csv" if labels is None else new_file())
    where = f"write them with -o {file}" if out is None else f"they are in {out}"
    print_lines(screen, wrapped("next  ", f"{where}; fill in its column label, then"))
    if plan.design == "random":
        command = shlex.join(["shiftgauge", "label-progress", str(save_plan or "plan.json"), str(file)])
    else:
        same = [*files.option_names(files.InputOptions), "proportions", "calibration"]
        command = command_line(context, "estimate", same)
        command += f" --labels {shlex.quote(str(file))}"
    print_lines(screen, wrapped("      ", command, "        ", continued=True))
    if plan.design == "random" and save_plan is None:
        screen.print("      (--save-plan plan.json writes the plan)")


def label_progress(plan: PlanFile, labels: LabelsFile, as_json: options.AsJson = False) -> None:
    """Say what the labels of a plan with an aim say so far, and whether labelling may stop.

    The range holds at every look, so it may be asked after each label.
    """
    from shiftgauge import io
    from shiftgauge.inference import LabelPlan

    made = LabelPlan.load(plan)
    with show_progress() as progress:
        progress(f"reading {labels}")
        given, notes = io.read_target_labels(
            labels, None, made.classes, made.ids is not None, may_be_empty=True
        )
        if made.ids is not None:  # a CSV has texts where TARGET may have numbers
            known = {str(key): key for key in made.ids.tolist()}
            given = {known.get(str(key), key): value for key, value in given.items()}
        try:
            result = made.progress(given)
        except InputError as problem:
            text = str(problem).removeprefix("labels: ")
            raise FileError(f"{plan if text.startswith('progress:') else labels}: {text}") from None
    if as_json:
        echo_json(result.to_dict())
        return
    screen = console()
    first = (made.rows if made.ids is None else made.ids)[0]
    none = f"go on: 0 of {len(made.rows):,} rows are labelled; begin with {first}"
    print_lines(screen, wrapped("", result.sentence() if result.labels else none, "  "), "bold")
    print_warnings(screen, (*result.warnings, *notes))
