"""Made-up run directories with the shape and the habits of real ones: methods that differ, seeds that scatter."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

VOC = ["aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"]
VOC += ["horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"]
# How well each method separates, how sure of positives it becomes, and how much it unlearns late in training.
SKILL = {"bce": (3.4, 1.2, 0.0), "an": (2.3, -2.6, 0.35), "an_ls": (2.6, -1.6, 0.1), "wan": (2.55, 1.0, 0.05)}
SKILL |= {"epr": (2.7, 0.2, 0.05), "role": (3.0, 0.6, 0.0)}


@dataclass
class World:
    """A data set: classes, how frequent they are, and the truth of its test images."""

    classes: list[str] = field(default_factory=lambda: list(VOC))
    test_images: int = 300
    train_images: int = 4574
    name: str = "voc2012"
    side: int = 40
    unscored: tuple[int, ...] = ()  # columns without a positive on test

    def __post_init__(self) -> None:
        rng = np.random.default_rng(3)
        share = np.clip(0.42 * np.arange(1, len(self.classes) + 1) ** -0.8, 0.015, 0.45)
        self.share = share[rng.permutation(len(share))]
        self.truth = np.where(rng.random((self.test_images, len(self.classes))) < self.share, 1, -1).astype(np.int8)
        self.truth[:, list(self.unscored)] = -1
        self.pixels = np.stack([_scene(rng, self.side) for _ in range(12)])

    def fingerprint(self, *what: object) -> str:
        return f"{zlib.crc32(repr((self.name, self.classes, *what)).encode()):08x}" * 8


def write_run(
    out: Path,
    world: World,
    method: str,
    seed: int = 0,
    *,
    observe: str = "single-positive",
    protocol: str = "linear",
    epochs: int = 12,
    images: bool = True,
    **changes: Any,
) -> Path:
    """A finished run directory; `changes` replace entries of result.json."""
    rng = np.random.default_rng(zlib.crc32(f"{method}{observe}{seed}".encode()))
    out.mkdir(parents=True, exist_ok=True)
    result = _result(world, method, seed, observe, protocol, epochs, rng)
    skill, sure, _ = SKILL.get(method, (2.5, 0.0, 0.1))
    logits = rng.normal(size=world.truth.shape) * 1.3 - 3.2 + (world.truth == 1) * (skill + sure)
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    names = np.array([f"2008_{i:06d}.jpg" for i in range(world.test_images)])
    np.savez(out / "scores-test.npz", images=names, scores=scores, truth=world.truth)
    if images:
        np.savez(out / "examples-test.npz", index=np.arange(12) * 7 % world.test_images, pixels=world.pixels)
    (out / "metrics.jsonl").write_text("".join(json.dumps(e) + "\n" for e in _epochs(method, epochs, protocol, rng)))
    run = result["run"]
    plain = "".join(
        f"{k} = {json.dumps(run[k])}\n" for k in ("source", "method", "observe", "protocol", "seed", "select")
    )
    options = "".join(f"{k} = {json.dumps(v)}\n" for k, v in result["options"]["method"].items())
    (out / "config.toml").write_text(f"{plain}\n[method_options]\n{options}\n[budget]\nepochs = {epochs}\n")
    result.update(changes)
    (out / "result.json").write_text(json.dumps(result, indent=1))
    return out


def write_runs(root: Path, world: World, methods: tuple[str, ...] = tuple(SKILL), seeds: int = 3, **more: Any) -> Path:
    """Every method with every seed; bce on full labels."""
    for method in methods:
        for seed in range(seeds):
            observe = "full" if method == "bce" else "single-positive"
            write_run(root / f"{method}-{seed}", world, method, seed, observe=observe, **more)
    return root


def _result(
    world: World, method: str, seed: int, observe: str, protocol: str, epochs: int, rng: np.random.Generator
) -> dict[str, Any]:
    skill = SKILL.get(method, (2.5, 0.0, 0.1))[0]
    ap = np.clip(
        0.35 + 0.13 * skill + 0.12 * np.log10(world.share / 0.05) + rng.normal(0, 0.02, len(world.share)), 0.02, 0.99
    )
    per_class = [None if c in world.unscored else round(float(v), 6) for c, v in enumerate(ap)]
    mean = float(np.mean([v for v in per_class if v is not None]))
    train = [round(float(v), 6) for v in np.clip(ap + 0.02, 0, 1)]
    observed_seed = 1200
    metrics = {"mAP": mean, "OF1": 0.4 + 0.1 * skill, "CF1": 0.35 + 0.1 * skill + rng.normal(0, 0.004)}
    metrics |= {"micro_F1": 0.4 + 0.1 * skill, "hamming_loss": 0.09 - 0.02 * skill, "one_error": 0.3 - 0.05 * skill}
    metrics |= {
        "coverage": (5 - skill) / 20,
        "ranking_loss": 0.08 - 0.01 * skill,
        "LRAP": 0.6 + 0.08 * skill,
        "precision@1": 0.8,
    }
    metrics |= {"mAP_low": mean - 0.013, "mAP_high": mean + 0.012}
    options = {"role": {"k": 1.5}, "epr": {"k": 1.5}, "an_ls": {"smoothing": 0.1}}.get(method, {})
    present = [int(n) for n in world.share * world.train_images]
    oracle = ["expected number of positives k = 1.5 (true mean of the training labels)"] if "k" in options else []
    return {
        "format": 1,
        "tacit": "0.1.0",
        "status": "finished",
        "run": {
            "source": world.name,
            "method": method,
            "observe": observe,
            "protocol": protocol,
            "seed": seed,
            "observe_seed": observed_seed,
            "split_seed": 1200,
            "select": "observed",
            "backbone": "features:voc2012_lite0_320",
            "recipe": None,
            "unknown": "estimated" if method == "role" else "negative",
        },
        "options": {"method": options, "source": {}, "budget": {"epochs": epochs, "batch_size": 16, "lr": 0.001}},
        "fingerprint": world.fingerprint(observe, protocol),
        "fingerprints": {
            "observed": world.fingerprint(observe, observed_seed),
            "test": world.fingerprint("test"),
            "train": world.fingerprint("train"),
        },
        "classes": world.classes,
        "counts": {
            "train": {
                "images": world.train_images,
                "present": present,
                "observed_present": [n // 2 for n in present],
                "observed_absent": [0] * len(present),
            },
            "test": {"images": world.test_images, "present": [int(n) for n in (world.truth == 1).sum(0)]},
        },
        "selected": {
            "epoch": epochs - 3 if epochs > 3 else 0,
            "stage": protocol.split("_")[0],
            "value": mean - 0.05,
            "metric": "mAP",
            "labels": "observed",
            "unknown": "negative",
        },
        "metrics": {"test": metrics, "val": {"mAP": mean - 0.05}, "train": {"mAP": mean + 0.02}},
        "per_class": {"test": {"AP": per_class}, "train": {"AP": train}},
        "unscored": {"test": [world.classes[c] for c in world.unscored]},
        "estimates": {"mAP": 0.9} if method == "role" else None,
        "also": {"clean": {"epoch": 9, "metrics": {"test": {"mAP": mean + 0.004}}}},
        "oracles": oracle,
        "choices": ["log(p + 1e-5) instead of the stable formula"] if method == "epr" else [],
        "published": {"value": 86.5, "metric": "mAP", "split": "test", "where": "Cole et al. 2021, Table 1"}
        if method == "role"
        else None,
        "seconds": 90.0 + 5 * skill,
        "peak_memory_mb": 900,
        "device": "cpu",
        "threads": 2,
        "images": world.train_images,
        "search": None,
    }


def _epochs(method: str, epochs: int, protocol: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    skill, _, unlearns = SKILL.get(method, (2.5, 0.0, 0.1))
    top, lines = 0.35 + 0.13 * skill, []
    for epoch in range(epochs):
        rise = 1 - np.exp(-(epoch + 1) / 2.5)
        selection = float(top * rise - 0.05 + rng.normal(0, 0.006))
        recovery = float(top * rise - unlearns * 0.2 * max(0, epoch - 4) / max(epochs, 1) + 0.03 + rng.normal(0, 0.004))
        terms = {method: float(0.3 * np.exp(-epoch / 4) + 0.1 + rng.normal(0, 0.004))}
        if method == "role":
            terms = {"classifier": 0.5 * terms[method], "estimator": 0.4 * terms[method], "expected_positives": 0.02}
        terms["total"] = sum(terms.values())
        second = protocol == "linear_init" and epoch >= epochs // 2
        line: dict[str, Any] = {
            "stage": "finetune" if second else "linear",
            "epoch": epoch - (epochs // 2) * second,
            "terms": terms,
            "seconds": 1.2,
            "lr": 0.001,
            "val": {"mAP": selection},
            "train": {"mAP": recovery} if epoch % 2 == 0 else {},
            "selection": selection,
        }
        if method == "role":
            line["estimates"] = {
                "mAP": 0.6 + 0.3 * float(rise),
                "precision": 0.5 + 0.3 * float(rise),
                "recall": 0.8 - 0.2 * float(rise),
            }
        lines.append(line)
    return lines


def _scene(rng: np.random.Generator, side: int) -> np.ndarray:
    """A sky, a ground and a few discs."""
    y, x = np.mgrid[:side, :side] / side
    image = np.where(y < 0.6, 1.0, 0.0)[None] * rng.uniform(120, 230, (3, 1, 1)) + (y >= 0.6)[None] * rng.uniform(
        40, 120, (3, 1, 1)
    )
    for _ in range(3):
        disc = (x - rng.random()) ** 2 + (y - rng.random()) ** 2 < rng.uniform(0.01, 0.04)
        image = np.where(disc[None], rng.uniform(0, 255, (3, 1, 1)), image)
    return image.clip(0, 255).astype(np.uint8)
