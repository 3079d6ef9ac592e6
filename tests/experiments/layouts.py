"""Tiny data sets written in the layouts in which the real ones are distributed."""

import csv
import gzip
import json
import pickle
import struct

import numpy as np


def picture(rng, label, size):
    """A colour square whose brightness tells the class apart."""
    base = np.full((size, size, 3), 40 + 60 * (label % 4), np.uint8)
    return np.clip(base + rng.integers(-20, 20, base.shape), 0, 255).astype(np.uint8)


def write_idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    with gzip.open(f"{path}.gz", "wb") as file:
        file.write(head + array.astype(np.uint8).tobytes())


def fashion(root, n=240, seed=0):
    rng = np.random.default_rng(seed)
    folder = root / "fashion-mnist"
    folder.mkdir()
    for part, count in (("train", n), ("t10k", n // 4)):
        labels = np.arange(count) % 10
        images = np.clip(labels[:, None, None] * 25 + rng.integers(0, 20, (count, 28, 28)), 0, 255)
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def cifar(root, per_batch=20, hundred=False, seed=0):
    rng = np.random.default_rng(seed)
    folder = root / ("cifar-100-python" if hundred else "cifar-10-batches-py")
    folder.mkdir()
    names = ["train", "test"] if hundred else [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name in names:
        labels = [int(v) for v in np.arange(per_batch) % (100 if hundred else 10)]
        images = np.stack([picture(rng, label, 32) for label in labels])
        data = images.transpose(0, 3, 1, 2).reshape(per_batch, -1)
        key = b"fine_labels" if hundred else b"labels"
        with open(folder / name, "wb") as file:
            pickle.dump({b"data": data, key: labels, b"batch_label": name.encode()}, file)


def cifar_c(root, names, per_severity=10, folder="CIFAR-10-C"):
    at = root / folder
    at.mkdir()
    labels = np.tile(np.arange(per_severity) % 10, 5).astype(np.uint8)
    np.save(at / "labels.npy", labels)
    for number, name in enumerate(names):
        images = np.zeros((5 * per_severity, 32, 32, 3), np.uint8) + number
        images[:, 0, 0, 0] = np.repeat(np.arange(1, 6), per_severity)
        np.save(at / f"{name}.npy", images)


def save_image(path, pixels):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


# A hierarchy of six classes in two superclasses at level 1, each with a chain of one child first.
WNIDS = ["n01", "n02", "n03", "n04", "n05", "n06", "n07", "n08"]
EDGES = [
    ("n00001740", "sA"), ("n00001740", "sB"), ("n00001740", "unused"), ("sA", "a"), ("a", "a1"), ("a", "a2"),
    ("a1", "n01"), ("a1", "n02"), ("a2", "n03"), ("a2", "n04"), ("sB", "n05"), ("sB", "n06"), ("sB", "n07"),
    ("sB", "n08"),
]  # fmt: skip


def hierarchy(folder):
    folder.mkdir(parents=True)
    (folder / "class_hierarchy.txt").write_text("\n".join(f"{a} {b}" for a, b in EDGES) + "\n")
    info = [[number, wnid, f"class {number}"] for number, wnid in enumerate(WNIDS)]
    (folder / "dataset_class_info.json").write_text(json.dumps(info))


def imagenet(root, train=10, val=2, seed=0):
    rng = np.random.default_rng(seed)
    for number, wnid in enumerate(WNIDS):
        for part, count in (("train", train), ("val", val)):
            for i in range(count):
                save_image(
                    root / "imagenet" / part / wnid / f"{wnid}_{i}.JPEG",
                    picture(rng, number, 40 + 10 * (i % 2)),
                )
        for severity in (1, 5):
            save_image(
                root / "ImageNet-C" / "fog" / str(severity) / wnid / f"{wnid}_0.JPEG",
                picture(rng, number, 224),
            )
        save_image(
            root / "imagenetv2-matched-frequency-format-val" / str(number) / "a.jpeg",
            picture(rng, number, 50),
        )
        save_image(root / "sketch" / wnid / "sketch_0.JPEG", picture(rng, number, 60))


def write_csv(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(header)
        writer.writerows(rows)


def camelyon17(root):
    rng, rows = np.random.default_rng(0), []
    for i in range(20):
        patient, node, centre = f"{i % 3:03d}", i % 2, i % 5
        rows.append([i, patient, node, 10 * i, 20 * i, i % 2, centre, i % 7 == 0, i])
        name = f"patient_{patient}_node_{node}"
        save_image(
            root / "camelyon17_v1.0" / "patches" / name / f"patch_{name}_x_{10 * i}_y_{20 * i}.png",
            picture(rng, i % 2, 96),
        )
    header = ["", "patient", "node", "x_coord", "y_coord", "tumor", "center", "split", "slide"]
    write_csv(root / "camelyon17_v1.0" / "metadata.csv", header, [[*r[:7], int(r[7]), r[8]] for r in rows])


def rxrx1(root):
    rng, rows = np.random.default_rng(0), []
    for i, (split, site) in enumerate([("train", 1), ("train", 2), ("val", 1), ("val", 2), ("test", 1)] * 3):
        rows.append([f"HEPG2-0{i % 3}", "HEPG2", 1 + i % 4, "B02", site, i % 5, split])
        save_image(
            root / "rxrx1_v1.0" / "images" / f"HEPG2-0{i % 3}" / f"Plate{1 + i % 4}" / f"B02_s{site}.png",
            picture(rng, i % 5, 256),
        )
    header = ["experiment", "cell_type", "plate", "well", "site", "sirna_id", "dataset"]
    write_csv(root / "rxrx1_v1.0" / "metadata.csv", header, rows)


def amazon(root):
    folder = root / "amazon_v2.1"
    header = ["reviewerID", "asin", "reviewText", "overall", "reviewYear", "category"]
    rows = [
        [f"u{i}", "p", f'Review {i}, "quoted",\nsecond line', float(1 + i % 5), 2012, "Books"]
        for i in range(30)
    ]
    write_csv(folder / "reviews.csv", header, rows)
    write_csv(folder / "splits" / "user.csv", ["split"], [[(-1, 0, 0, 1, 2, 3)[i % 6]] for i in range(30)])


def civilcomments(root):
    groups = ["male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white"]
    header = ["", "id", "comment_text", "split", "toxicity", *groups]
    rows = [
        [i, i, f"comment {i}", ("train", "train", "val", "test")[i % 4], (i % 10) / 10]
        # Half of the raters are enough; every group is mentioned in two of the six test comments.
        + [(0.5, 0.0, 0.2)[(i // 4 + k) % 3] for k in range(8)]
        for i in range(24)
    ]
    write_csv(root / "civilcomments_v1.0" / "all_data_with_identities.csv", header, rows)
