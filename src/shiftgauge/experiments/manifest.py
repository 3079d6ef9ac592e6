"""The manifest of results: which weights, files and options made them, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftgauge.experiments.datasets import Dataset
from shiftgauge.experiments.scores import SOURCE, ScoreFolder, seeds_of, seeds_without_source


def results_manifest(runs: Path, dataset: Dataset, network: str, marginal: str) -> dict[str, Any]:
    """The manifests of all seeds, merged: the ``manifest.json`` beside estimates."""
    seeds: dict[str, Any] = {}
    shifts: dict[str, Any] = {}
    begun = seeds_without_source(runs, dataset.name, network)
    missing = {f"{SOURCE}, seed {seed}": "not scored yet" for seed in begun}
    for seed in seeds_of(runs, dataset.name, network):
        scores = ScoreFolder.of(runs, dataset.name, network, seed)
        manifest = scores.manifest
        software = set()
        here = {}
        for shift in scores.shifts():
            target, stamp = scores.read(shift), scores.stamp(shift)
            here[shift] = {
                "kind": target.kind,
                "n": len(target.labels),
                "origin": manifest.get("origins", {}).get(shift, ""),
                "inputs": stamp["inputs"],
            }
            software.add(stamp["software"])
        shifts = here | shifts
        missing |= {f"{shift}, seed {seed}": why for shift, why in scores.missing().items()}
        common = {k: v for k, v in manifest.items() if k not in ("shifts", "missing", "made_by", "origins")}
        source = {"n": len(scores.read().labels), "inputs": scores.stamp()["inputs"]}
        seeds[str(seed)] = common | {"source": source, "software": sorted(software - {""})}
    return {
        "dataset": dataset.name,
        "network": network,
        "marginal": marginal,
        "note": dataset.note,
        "seeds": seeds,
        "shifts": shifts,
        "missing": missing,
    }


def notes_of(manifest: Mapping[str, Any], note: str) -> list[str]:
    """Notes below the tables: label proportions, training, published or made here, equal sets, missing sets."""
    if not manifest:
        unknown = "There is no manifest.json: what made these numbers, and what is missing, is not known."
        return [*([note] if note else []), unknown]
    shifts = manifest.get("shifts", {})
    notes = [
        note or str(manifest.get("note", "")),
        f"Label shares transported to: {manifest.get('marginal', 'source')}.",
        _training_note(manifest),
        _origins_note(shifts),
        _equal_sets_note(shifts),
    ]
    missing = manifest.get("missing", {})
    if missing:
        named = ", ".join(list(missing)[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        notes.append(f"Missing: {named}.")
    return [text for text in notes if text]


def recipe_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's settings, which are those of all seeds; empty if the manifest has none."""
    seeds = manifest.get("seeds", {}).values()
    return next((seed["recipe"] for seed in seeds if seed.get("recipe")), {})


def _training_note(manifest: Mapping[str, Any]) -> str:
    recipe = recipe_of(manifest)
    if not recipe:
        return ""
    start = f"public {recipe['pretrained']} weights" if recipe.get("pretrained") else "random weights"
    return f"Trained for {recipe['epochs']:g} epochs of {recipe['optimiser']} from {start}."


def _origins_note(shifts: Mapping[str, Any]) -> str:
    shifted = [entry.get("origin") for entry in shifts.values() if entry["kind"] != "clean"]
    origins = [o for o in ("published", "made here", "recorded elsewhere") if o in shifted]
    text = ", ".join(f"{shifted.count(origin)} {origin}" for origin in origins)
    return f"Shifted sets: {text}." if text else ""


def _equal_sets_note(shifts: Mapping[str, Any]) -> str:
    # Compared by digests of the scored images, since errors may be equal by chance.
    clean = next((entry["inputs"] for entry in shifts.values() if entry["kind"] == "clean"), "")
    shifted = {name: entry["inputs"] for name, entry in shifts.items() if entry["kind"] != "clean"}
    if not clean or not all(shifted.values()):
        return ""
    same = sorted(name for name, inputs in shifted.items() if inputs == clean)
    text = f"{len(shifted) - len(same)} of {len(shifted)} shifted sets differ from the clean one"
    return text + (f"; {', '.join(same)} do nothing to these images." if same else ".")
