"""What results say about themselves: which weights, files and options made them, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftgauge._version import __version__
from shiftgauge.experiments.datasets import Dataset
from shiftgauge.experiments.scores import SOURCE, Scores, seeds_of, seeds_without_source


def about_of(runs: Path, dataset: Dataset, network: str, marginal: str) -> dict[str, Any]:
    """The record that stands beside estimates as ``about.json``."""
    seeds: dict[str, Any] = {}
    shifts: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for part in dataset.collections or ("",):
        name = f"{dataset.name}/{part}" if part else dataset.name
        begun = seeds_without_source(runs, name, network)
        missing |= {f"{_within(part, SOURCE)}, seed {seed}": "not scored yet" for seed in begun}
        for seed in seeds_of(runs, name, network):
            scores = Scores.of(runs, name, network, seed)
            told = dict(scores.about)
            here = _shifts(scores, part, told.pop("origins", {}))
            software = sorted({entry.pop("software") for entry in here.values()} - {""})
            shifts = here | shifts
            missing |= {f"{_within(part, s)}, seed {seed}": why for s, why in scores.missing().items()}
            told = {k: v for k, v in told.items() if k not in ("shifts", "missing", "made_by")}
            source = scores.read()
            told["source"] = {"n": len(source.labels), "inputs": source.inputs}
            seeds[f"{part} {seed}".strip()] = told | ({"software": software} if software else {})
    return {
        "dataset": dataset.name,
        "network": network,
        "marginal": marginal,
        "version": __version__,
        "note": dataset.note,
        "seeds": seeds,
        "shifts": shifts,
        "missing": missing,
    }


def _within(part: str, shift: str) -> str:
    return f"{part}/{shift}" if part else shift


def _shifts(scores: Scores, part: str, origins: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for shift in scores.shifts():
        target = scores.read(shift)
        found[_within(part, shift)] = {
            "kind": target.kind,
            "n": len(target.labels),
            "origin": _origin(scores.stamp(shift), origins.get(shift, "")),
            "inputs": target.inputs,
            "software": target.software,
        }
    return found


def _origin(stamp: Mapping[str, Any], told: str) -> str:
    # A file of scores knows best what it was made of.
    return told if "made" not in stamp else "made here" if stamp["made"] else "published"


def notes_of(about: Mapping[str, Any], note: str) -> list[str]:
    """What the tables must say: label shares, training, published or made here, sets alike, sets missing."""
    if not about:
        unknown = "There is no about.json: what made these numbers, and what is missing, is not known."
        return [*([note] if note else []), unknown]
    shifts = about.get("shifts", {})
    notes = [
        note or str(about.get("note", "")),
        f"Label shares transported to: {about.get('marginal', 'source')}.",
        _trained(about),
        _origins(shifts),
        _alike(shifts),
    ]
    missing = about.get("missing", {})
    if missing:
        named = ", ".join(list(missing)[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        notes.append(f"Missing: {named}.")
    return [text for text in notes if text]


def recipe_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which all seeds of an ``about.json`` were trained; empty where it does not say."""
    return next((seed["recipe"] for seed in about.get("seeds", {}).values() if seed.get("recipe")), {})


def _trained(about: Mapping[str, Any]) -> str:
    recipe = recipe_of(about)
    if not recipe:
        return ""
    start = f"public {recipe['pretrained']} weights" if recipe.get("pretrained") else "random weights"
    return f"Trained for {recipe['epochs']:g} epochs of {recipe['optimiser']} from {start}."


def _origins(shifts: Mapping[str, Any]) -> str:
    shifted = [entry.get("origin") for entry in shifts.values() if entry["kind"] != "clean"]
    counts = {
        origin: shifted.count(origin)
        for origin in ("published", "made here", "recorded elsewhere")
        if origin in shifted
    }
    return (
        "Shifted sets: " + ", ".join(f"{n} {origin}" for origin, n in counts.items()) + "." if counts else ""
    )


def _alike(shifts: Mapping[str, Any]) -> str:
    # Compared by the images themselves (a digest of what was scored), not by errors that may agree by chance.
    clean = next((entry["inputs"] for entry in shifts.values() if entry["kind"] == "clean"), "")
    shifted = {name: entry["inputs"] for name, entry in shifts.items() if entry["kind"] != "clean"}
    if not clean or not all(shifted.values()):
        return ""
    same = sorted(name for name, inputs in shifted.items() if inputs == clean)
    said = f"{len(shifted) - len(same)} of {len(shifted)} shifted sets differ from the clean one"
    return said + (f"; {', '.join(same)} do nothing to these images." if same else ".")
