"""`shiftgauge label-plan SOURCE TARGET`: which rows to label; `label-progress PLAN LABELS`: when to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.outputs import check_output
from shiftgauge.cli.records import echo_json, print_json
from shiftgauge.cli.screen import console, plain_table, print_warnings, show_progress, wrapped
from shiftgauge.errors import FileError, InputError
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.inference import LabelPlan

#: Rows shown on the screen.
SHOWN = 5
Count = Annotated[
    int | None,
    typer.Option("--number", "-n", help="How many rows to label", show_default="20; all rows with an aim"),
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

    The rows are written to --out (.csv, .parquet, .arrow or .npz). Add a column label, and pass the file to
    estimate --labels.
    """
    from shiftgauge import io
    from shiftgauge.inference import label_plan as plan_labels

    if until_width is not None and decide is not None:
        raise InputError("--until-width and --decide: wanted one aim")
    _check_outputs(out, save_plan, [source, target, inputs.source_labels])
    with show_progress() as progress:
        samples = inputs.read(source, target, progress)
        progress("planning")
        plan = plan_labels(
            samples.pair(calibration, "label-plan", seed),
            n=number,
            until_width=until_width,
            decide=decide,
            level=level,
            proportions=proportions,
            seed=seed,
        )
        if out is not None:
            io.write_table(out, plan.table())
        if save_plan is not None:
            plan.save(save_plan)
    if as_json:
        print_json(plan.to_dict(), context, samples.source, samples.target)
    else:
        _print(plan, out, save_plan, f"{source} {target}")


def _check_outputs(out: Path | None, save_plan: Path | None, paths: list[Any]) -> None:
    """Refuse outputs that cannot be written, or are inputs."""
    from shiftgauge.io.write import check_ending
    from shiftgauge.storage import check_writable

    if out is not None:
        check_ending(out)
        check_output("--out", out, paths)
    if save_plan is not None:
        if save_plan.suffix.lower() != ".json":
            raise FileError(f"--save-plan {save_plan}: wanted a name ending in .json")
        check_output("--save-plan", check_writable(save_plan), paths)


def _print(plan: LabelPlan, out: Path | None, save_plan: Path | None, both: str) -> None:
    screen = console()
    screen.print(plan.sentence(), style="bold")
    head, lines = plan.table_rows()
    table = plain_table((heading.replace("_", " ") for heading in head), left=0)
    for line in lines[:SHOWN]:
        table.add_row(*line)
    screen.print(table)
    if len(plan.rows) > SHOWN:
        screen.print(f"and {len(plan.rows) - SHOWN:,} more")
    print_warnings(screen, [text for text in plan.warnings if "(shiftgauge label-plan)" not in text])
    file = "rows.csv" if out is None else out
    where = "write them with -o rows.csv" if out is None else f"they are in {out}"
    for text in wrapped("next  ", f"{where}; add a column label, then"):
        screen.print(text)
    if plan.design == "random":
        screen.print(f"      shiftgauge label-progress {save_plan or 'plan.json'} {file}")
        if save_plan is None:
            screen.print("      (--save-plan plan.json writes the plan)")
    else:
        screen.print(f"      shiftgauge estimate {both} --labels {file}")


def label_progress(plan: PlanFile, labels: LabelsFile, as_json: options.AsJson = False) -> None:
    """Say what the labels of a plan with an aim say so far, and whether labelling may stop.

    The range holds at every look, so it may be asked after each label.
    """
    from shiftgauge import io
    from shiftgauge.inference import LabelPlan

    made = LabelPlan.load(plan)
    with show_progress() as progress:
        progress(f"reading {labels}")
        given, notes = io.read_target_labels(labels, None, made.classes, made.ids is not None)
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
    screen.print(result.sentence(), style="bold")
    print_warnings(screen, (*result.warnings, *notes))
