"""Rows of a sweep's tables, for terminal and page: points, averages over the axis, and how validation was made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..metrics.intervals import SeedSummary
from .sweeps import METRICS, Curve, Sweep


def percent(found: SeedSummary | None) -> str:
    """ "84.21 ± 0.10", without a spread where there is one run."""
    if found is None or math.isnan(found.mean):
        return "–"
    return f"{found.mean:.2f}" if math.isnan(found.sd) else f"{found.mean:.2f} ± {found.sd:.2f}"


def point_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Column names and rows: a row per point, and one with the average over the axis below each curve."""
    rows = []
    for curve in sweep.curves:
        for point in curve.points:
            told = [point.values[axis] for axis in sweep.axes]
            rows.append([*told, *(percent(point.summary(m)) for m in METRICS), f"{len(point.runs)}/{point.wanted}"])
        if curve.numeric and len(curve.points) > 1:
            fixed = [curve.points[0].values[axis] for axis in sweep.axes[1:]]
            whole = sum(bool(point.runs) for point in curve.points)
            rows.append(["average", *fixed, *(percent(curve.average(m)) for m in METRICS), f"{whole} points"])
    return [*sweep.axes, *METRICS, "runs"], rows


def remarks(sweep: Sweep) -> list[str]:
    """What must be known to read the figures."""
    runs = [run for curve in sweep.curves for run in curve.runs]
    if not runs:
        return ["no finished run"]
    out = [f"validation: {'; '.join(dict.fromkeys(curve.validation for curve in sweep.curves if curve.runs))}"]
    if any(run.config.val for run in runs):
        out[0] += " (of the training images, after labels were hidden on the full list in row order)"
    unknown = dict.fromkeys(run.result["run"].get("unknown", "") for run in runs)
    out.append(f"an unknown label is, to the method: {'; '.join(filter(None, unknown)) or 'not said'}")
    out += [f"oracle: {oracle}" for oracle in dict.fromkeys(o for run in runs for o in run.result["oracles"])]
    if any(not curve.complete for curve in sweep.curves):
        out.append("an average needs every point with the same seeds: run the same command again for what is missing")
    seeds = len({run.config.seed for run in runs})
    out.append("± is the standard deviation over seeds" if seeds > 1 else "one seed: no spread is known")
    return out


def heading(sweep: Sweep) -> str:
    method = "several methods" if "method" in sweep.axes else sweep.settings.method
    return f"{sweep.settings.source.partition(':')[0]}, {method}, {sweep.settings.protocol}"


def curve_labels(sweeps: Sequence[Sweep]) -> list[tuple[str, Curve]]:
    """A name for every curve; where two would have the same, the folder tells them apart."""
    pairs = [(sweep, curve) for sweep in sweeps for curve in sweep.curves]
    names = [curve.label for _, curve in pairs]
    return [
        (curve.label if names.count(curve.label) == 1 else f"{curve.label} ({sweep.folder})", curve)
        for sweep, curve in pairs
    ]


def together_rows(sweeps: Sequence[Sweep]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows: a curve per row, mAP at every value of the axis, then the averages and the validation."""
    labelled = curve_labels(sweeps)
    axis = sweeps[0].axes[0]
    values = list(dict.fromkeys(point.values[axis] for _, curve in labelled for point in curve.points))
    numeric = all(curve.numeric for _, curve in labelled)
    if numeric:
        values.sort(key=float)
    rows = []
    for label, curve in labelled:
        at = {point.values[axis]: percent(point.summary("mAP")) for point in curve.points}
        averages = [percent(curve.average(metric)) for metric in METRICS if numeric]
        rows.append([label, *(at.get(value, "–") for value in values), *averages, curve.validation])
    return [axis, *values, *(f"average {metric}" for metric in METRICS if numeric), "validation"], rows
