"""Finished runs on toy data, for the commands that read them: one on features that were brought in, one on images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tacit.cli import main
from tacit.label_table import LabelTable, write_label_table
from tacit.labels import Labels
from tacit.methods.registry import build_method
from tacit.model import write_model
from tacit.nets.net import make_backbone, make_net
from tacit.run import RunConfig, RunDirectory

CLASSES = ("cat", "dog", "owl", "sun")
WIDTH, ROWS = 6, 120


def feature_run(folder: Path) -> Path:
    """`tacit train` on a label table and features; test images 96 to 119."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((ROWS, WIDTH)).astype(np.float32)
    states = np.where(features[:, :4] + generator.standard_normal((ROWS, 4)) / 2 > 0, 1, -1).astype(np.int8)
    states[:, 0] = np.where(states.sum(1) == -4, 1, states[:, 0])
    names = tuple(f"{row:03d}.jpg" for row in range(ROWS))
    splits = ("train",) * 96 + ("test",) * 24
    write_label_table(folder / "all.csv", LabelTable(names, Labels.from_dense(states, CLASSES), splits))
    np.savez(folder / "features.npz", images=np.array(names), features=features)
    words = [
        "--missing",
        "keep",
        "--check",
        "none",
        "--features",
        str(folder / "features.npz"),
        "--epochs",
        "2",
        "--device",
        "cpu",
    ]
    assert main(["train", str(folder / "all.csv"), *words, "--out", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


def image_model(folder: Path, size: int = 16) -> Path:
    """The model of a run on images, untrained."""
    torch.manual_seed(4)
    net = make_net(make_backbone("test_resnet", "none", size=size), len(CLASSES))
    observed = Labels.from_dense(np.eye(4, dtype=np.int8), CLASSES)
    method = build_method("an", net, observed)
    config = RunConfig("scenes", method="an", protocol="finetune")
    write_model(RunDirectory(folder), method, config, CLASSES, preprocessing=net.preprocessing, extractor=None)
    return folder


def photos(folder: Path, count: int = 7) -> list[Path]:
    """Small pictures of different sizes, some in a folder of their own."""
    generator, paths = np.random.default_rng(1), []
    for number in range(count):
        pixels: NDArray[np.uint8] = generator.integers(0, 256, (20 + number, 30, 3), np.uint8)
        paths.append(folder / ("more" if number > 4 else "") / f"{number}.png")
        paths[-1].parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray(pixels).save(paths[-1])
    return paths
