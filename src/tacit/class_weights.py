"""A person's weights per class: a CSV with the columns `class,weight`, or a JSON object of names and numbers."""

from __future__ import annotations

import csv
import difflib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .errors import UserError


class ClassWeightsError(UserError, ValueError):
    """A file of class weights that is missing, unreadable or does not fit the classes."""


def read_class_weights(path: Path) -> dict[str, float]:
    """Weights by class name; each a finite number of at least 0."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ClassWeightsError(
            f"class weights: cannot read {path} ({error}). Give a UTF-8 CSV or JSON file."
        ) from error
    return _from_json(path, text) if path.suffix.lower() == ".json" else _from_csv(path, text)


def weights_in_order(weights: Mapping[str, float], classes: Sequence[str]) -> NDArray[np.float64]:
    """One weight per class, in the order of `classes`; a name that only one side knows is an error."""
    strange = [name for name in weights if name not in set(classes)]
    if strange:
        near = difflib.get_close_matches(strange[0], classes, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ClassWeightsError(f"class weights: '{strange[0]}' is not one of the {len(classes)} classes.{hint}")
    missing = [name for name in classes if name not in weights]
    if missing:
        raise ClassWeightsError(
            f"class weights: {len(missing)} classes have none, e.g. {', '.join(missing[:5])}; write 0 for a class "
            "that is never observed"
        )
    return np.array([weights[name] for name in classes], np.float64)


def _from_json(path: Path, text: str) -> dict[str, float]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ClassWeightsError(f"class weights: {path} is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise ClassWeightsError(f'class weights: {path} must hold an object such as {{"cat": 2, "dog": 1}}')
    return {name: _weight(path, name, value) for name, value in content.items()}


def _from_csv(path: Path, text: str) -> dict[str, float]:
    rows = [row for row in csv.reader(text.splitlines(keepends=True)) if row]
    if not rows or rows[0] != ["class", "weight"]:
        raise ClassWeightsError(f"class weights: {path} must begin with the line 'class,weight'")
    weights: dict[str, float] = {}
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != 2:
            raise ClassWeightsError(f"class weights: {path}, line {number}: expected 'class,weight', found {row}")
        if row[0] in weights:
            raise ClassWeightsError(f"class weights: {path}, line {number}: '{row[0]}' has a weight already")
        weights[row[0]] = _weight(path, row[0], row[1])
    return weights


def _weight(path: Path, name: str, value: object) -> float:
    try:
        weight = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        weight = math.nan
    if not math.isfinite(weight) or weight < 0:
        raise ClassWeightsError(f"class weights: {path}: '{name}' has the weight {value!r}; give a number of 0 or more")
    return weight
