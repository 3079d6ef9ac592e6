"""The summary as Markdown, for a pull request: the answer, the methods, the findings, how to repeat it."""

from __future__ import annotations

import re
from typing import Any

from shiftgauge.errors import printable
from shiftgauge.reports.page import MARKS, percent, points

#: More classes than this are not listed: the largest ones are.
MOST_CLASSES = 30


def markdown(summary: dict[str, Any]) -> str:
    """Render the Markdown; every given text is escaped."""
    answer, comparison, origin = summary["answer"], summary["comparison"], summary["provenance"]
    diagnosis, classes = summary["diagnosis"], summary["classes"]
    listed = f"The {MOST_CLASSES} largest of {len(classes)} classes. " if len(classes) > MOST_CLASSES else ""
    lines = [
        f"## Estimated error {percent(answer['error'])}",
        "",
        escape(answer["sentence"]),
        "",
        f"**{MARKS[diagnosis['level']]} {diagnosis['level']}: {escape(diagnosis['headline'])}**",
        *(f"- {escape(reason)}" for reason in diagnosis["reasons"]),
        "",
        f"What to do: {escape(diagnosis['advice'])}",
        "",
        *([f"Why: {escape(answer['why'])}.", ""] if answer["why"] else []),
        *_methods(comparison, answer["method"]),
        "",
        "| assumed label shares | estimated error |",
        "|---|---:|",
        *(
            f"| {r['marginal']}: {escape(r['assumption'])} | {percent(r['error'])} |"
            for r in summary["marginals"]["rows"]
        ),
        "",
        "<details><summary>By predicted class</summary>",
        "",
        "| predicted class | rows | estimated error | range |",
        "|---|---:|---:|---:|",
        *(
            f"| {escape(r['class'])} | {r['rows']:,} | {percent(r['error'])} | {_ends(r['range'])} |"
            for r in _largest(classes)
        ),
        "",
        f"{listed}Where two ranges overlap, or there is none, neither class is known to be worse.",
        "",
        "</details>",
    ]
    for table in summary["slices"]:
        lines += _slices(table)
    if summary["drivers"] is not None:
        lines += _drivers(summary["drivers"])
    lines += ["", "| check | level | what was found |", "|---|---|---|"]
    lines += [
        f"| {escape(f['check'])} | {MARKS[f['level']]} {f['level']} | {escape(f['meaning'])} |"
        for f in summary["findings"]
    ]
    lines += ["", *_origin(origin, answer), ""]
    return "\n".join(lines)


def _drivers(found: dict[str, Any]) -> list[str]:
    return [
        "",
        f"The estimate differs from the error on the source by {100 * found['rise']:+.1f} points; for each column by "
        "itself:",
        "",
        "| column | change | mix change, points | within-slice change, points |",
        "|---|---:|---:|---:|",
        *(
            f"| {escape(r['column'])} | {r['distance']:.2f} | {points(r['mix'], r['mix_range'])} | "
            f"{points(r['within'], r['within_range'])} |"
            for r in found["columns"]
        ),
        *(f"\n{escape(text)}" for text in found["counts"]),
    ]


def _methods(comparison: dict[str, Any], chosen: str) -> list[str]:
    truth = comparison["target"].get("true_error")
    checked = truth is not None
    lines = ["| method | estimated error | range |" + (" miss |" if checked else "")]
    lines.append("|---|---:|---:|" + ("---:|" if checked else ""))
    for one in comparison["estimates"]:
        if one["error"] is None:
            continue
        name = f"**{one['method']}**" if one["method"] == chosen else one["method"]
        shown = one["range"] or one.get("interval")
        row = f"| {name} | {percent(one['error'])} | {_ends(shown)} |"
        lines.append(row + (f" {100 * (one['error'] - truth):+.1f} |" if checked else ""))
    if checked:
        lines.append(f"| truth | {percent(truth)} | | |")
    return lines


def _ends(shown: dict[str, Any] | None) -> str:
    return f"{percent(shown['low'])} to {percent(shown['high'])}" if shown else "–"


def _slices(table: dict[str, Any]) -> list[str]:
    lines = ["", f"| {escape(table['column'])} | rows | estimated error | range |", "|---|---:|---:|---:|"]
    for r in table["rows"]:
        lines.append(
            f"| {escape(r['slice'])} | {r['rows']:,} | {percent(r['error'])} | {_ends(r['range'])} |"
        )
    return [*lines, "", f"Ranges: {100 * table['level']:g}%, {escape(table['kind'])}."]


def _origin(origin: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    parts = [f"shiftgauge {origin['shiftgauge']}", f"source `{origin['source']['fingerprint'][:12]}`"]
    parts.append(f"target `{origin['target']['fingerprint'][:12]}`")
    certificate = answer["details"].get("certificate")
    if certificate:
        parts.append(f"gap of the optimum {certificate['gap']:.1e}")
    lines = ["<sub>" + ", ".join(parts) + "</sub>"]
    if origin["command"]:
        command = printable(origin["command"]).replace("`", "'")  # a file's name cannot end the code span
        lines += ["", f"`{command}`"]
    return lines


def _largest(classes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return (
        classes if len(classes) <= MOST_CLASSES else sorted(classes, key=lambda r: -r["rows"])[:MOST_CLASSES]
    )


def escape(text: str) -> str:
    """Text that Markdown and HTML leave as it is.

    >>> escape("a|b <i> *c*")
    'a\\\\|b &lt;i&gt; \\\\*c\\\\*'
    """
    plain = printable(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~!$])", r"\\\1", plain)
