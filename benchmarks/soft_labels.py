"""Where confidence-based methods lose: one network trained on hard labels, with label smoothing and with mixup.

    python benchmarks/soft_labels.py DATA [--name fashion-mnist] [--network small] [--recipe fashion-mnist]
                                     [--max-rows 2500] [--epochs 6] [--scores DIRECTORY] [--json FILE]

DATA holds the data sets as `shiftgauge bench` reads them. The three networks have the same initial weights, batches
and augmentation; only the loss differs: cross-entropy with the labels, with a tenth of every label spread over all
classes (Szegedy et al., 2016), and with pairs of images mixed with Beta(1, 1) weights (Zhang et al., 2018). Printed per
method: the mean absolute error over the corrupted test sets, in percentage points, after temperature scaling on the
source. `--scores` keeps each network's logits as DIRECTORY/<data set>_<loss>.npz (`val_logits`, `val_labels`, `labels`
and `<shift>_logits`, as `--logits` of the other benchmarks reads them); a file that exists is not made again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from _options import parser_of, save
from torch.nn.functional import cross_entropy

import shiftgauge as sg
from shiftgauge.experiments.datasets import Dataset, dataset
from shiftgauge.experiments.examples import Examples
from shiftgauge.experiments.loading import ShuffledBatches, batches
from shiftgauge.experiments.networks import build
from shiftgauge.experiments.recipes import Recipe, recipe
from shiftgauge.experiments.scoring import score, to_inputs
from shiftgauge.experiments.training import make_optimiser

LOSSES = ("hard", "smoothed", "mixup")
SMOOTHING = 0.1
METHODS = ("ac", "doc", "im", "atc-mc", "atc-ne", "cot", "cott", "scot", "auto")
SEED = 0


def loss_of(kind: str, network: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, step: int):
    """The loss of one batch."""
    if kind != "mixup":
        return cross_entropy(
            network(images), labels, label_smoothing=SMOOTHING if kind == "smoothed" else 0.0
        )
    weight = np.random.default_rng([SEED, step]).beta(1.0, 1.0)
    # Batches are in random order, so the reversed batch is a random partner.
    outputs = network(weight * images + (1 - weight) * images.flip(0))
    return weight * cross_entropy(outputs, labels) + (1 - weight) * cross_entropy(outputs, labels.flip(0))


def trained(kind: str, network_name: str, classes: int, examples: Examples, how: Recipe) -> torch.nn.Module:
    """A network trained with one of the losses."""
    network = build(network_name, classes, SEED).to(memory_format=torch.channels_last).train()
    optimiser = make_optimiser(network, how)
    plan = ShuffledBatches(len(examples), how.batch, SEED, how.augment)
    for step, inputs, labels in batches(examples, plan, 0, round(plan.steps * how.epochs)):
        for weights in optimiser.param_groups:
            weights["lr"] = how.rate_at((step + 0.5) / plan.steps)
        loss = loss_of(kind, network, to_inputs(network, inputs, torch.device("cpu")), labels, step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return network.eval()


def score_all(networks: dict[str, torch.nn.Module], known: Dataset, root: Path, rows: int) -> dict[str, dict]:
    """Arrays by loss: logits of the source and of every corrupted set, which is made once for all networks."""
    source = known.validation(root)
    arrays: dict[str, dict] = {}
    for kind, network in networks.items():
        arrays[kind] = {
            "val_logits": score(network, source).astype(np.float16),
            "val_labels": source.labels.astype(np.int16),
        }
    for shift in known.shifts(root):
        if shift.kind not in ("clean", "synthetic"):
            continue
        examples = shift.load()
        examples = examples.take(shift.subset(rows, len(examples)))
        for kind, network in networks.items():
            arrays[kind][f"{shift.name}_logits"] = score(network, examples).astype(np.float16)
            arrays[kind]["labels"] = examples.labels.astype(np.int16)
    return arrays


def misses(arrays: dict) -> dict[str, float]:
    """Facts of one network and the mean absolute error of each method, in percentage points."""
    labels = arrays["labels"].astype(int)
    logits = arrays["val_logits"].astype(np.float32)
    source = sg.Source(logits=logits, labels=arrays["val_labels"].astype(int))
    estimates: dict[str, list[float]] = {name: [] for name in METHODS}
    truths = []
    for name in arrays:
        if name.endswith("_logits") and name not in ("val_logits", "clean_logits"):
            scores = arrays[name].astype(np.float32)
            answers = sg.compare(source, sg.Target(logits=scores), list(METHODS))
            truths.append(float((scores.argmax(1) != labels).mean()))
            for method in METHODS:
                estimates[method].append(answers[method].error)
    top = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).max(1)
    right = logits.argmax(1) == arrays["val_labels"]
    facts = {
        "source_error": 100 * (1 - right.mean()),
        "confidence_minus_accuracy": 100 * (top.mean() - right.mean()),
    }
    truth = np.array(truths)
    return facts | {m: 100 * float(np.abs(np.array(e) - truth).mean()) for m, e in estimates.items()}


def main() -> None:
    """Train, score, print."""
    parser = parser_of(__doc__, "without DATA, nothing is run")
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--name", default="fashion-mnist", help="data set of images")
    parser.add_argument("--network", default="small")
    parser.add_argument("--recipe", default="fashion-mnist")
    parser.add_argument("--epochs", type=float, help="instead of the recipe's")
    parser.add_argument("--max-rows", type=int, default=2500, help="rows of every corrupted set")
    parser.add_argument("--scores", type=Path, help="keep the logits in this directory")
    options = parser.parse_args()
    if options.data is None:
        if options.quick:
            print("needs a data set of images, and trains three networks: not run")
            return
        parser.error("DATA is missing: the directory of the data sets")
    known, how = dataset(options.name), recipe(options.recipe)
    if options.epochs:
        how = replace(how, epochs=options.epochs, warmup=options.epochs / 4)
    paths = {k: options.scores / f"{known.name}_{k}.npz" for k in LOSSES} if options.scores else {}
    if paths and all(path.exists() for path in paths.values()):
        arrays = {kind: dict(np.load(path)) for kind, path in paths.items()}
    else:
        examples = known.training(options.data)
        networks = {k: trained(k, options.network, known.classes, examples, how) for k in LOSSES}
        arrays = score_all(networks, known, options.data, options.max_rows)
        for kind, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, **arrays[kind])
    table = {kind: misses(of) for kind, of in arrays.items()}
    print(f"{known.title}, {options.network}{'':24}" + "".join(f"{kind:>10}" for kind in LOSSES))
    for row in table["hard"]:
        print(f"{row:40}" + "".join(f"{table[kind][row]:10.2f}" for kind in LOSSES))
    save(options, table)


if __name__ == "__main__":
    main()
