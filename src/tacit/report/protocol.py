"""Which parts of the protocol differ between compared groups, and how much that matters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .records import RunRecord

Severity = Literal["alarm", "warning", "note"]
Member = tuple[str, tuple[RunRecord, ...]]  # label of a group, its runs

# alarm: the numbers are not about the same thing; note: usually the very thing that is compared; else a warning
_SEVERITY: dict[str, Severity] = {
    "source": "alarm",
    "classes": "alarm",
    "test labels": "alarm",
    "observed labels": "alarm",
    "observation": "note",
}
# Entries of result.json's "protocol" that are told from elsewhere, in better words.
_TOLD = {"classes", "test", "train", "split_seed", "protocol", "inputs", "selection", "epochs"}
_WORDS = {"pool": "images to train and validate on", "val": "share held out for validation", "metrics": "metric rules"}
_ORDER: tuple[Severity, ...] = ("alarm", "warning", "note")


@dataclass(frozen=True)
class Part:
    """One part of the protocol in which groups differ: each value, and the groups that have it."""

    name: str
    severity: Severity
    values: tuple[tuple[str, tuple[str, ...]], ...]


def differing_parts(members: Sequence[Member]) -> list[Part]:
    """Differences worth telling, the gravest first; none if every group ran under the same protocol."""
    described = [(label, _describe(runs)) for label, runs in members]
    parts = []
    for name in dict.fromkeys(name for _, values in described for name in values):
        parts += _part(name, [(label, values[name]) for label, values in described if name in values])
    parts += _observed_labels(members)
    parts = parts or _unexplained(members)
    return sorted(parts, key=lambda part: _ORDER.index(part.severity))


def searched_keys(record: RunRecord) -> frozenset[str]:
    """Budget entries that a declared search chose: they may differ between the seeds of one group."""
    return frozenset(key for trial in record.search for key in trial) - {"epoch", "value"}


def fixed_budget(record: RunRecord) -> dict[str, Any]:
    """The budget without what a search chose."""
    searched = searched_keys(record)
    return {key: value for key, value in record.options.get("budget", {}).items() if key not in searched}


def short_hash(fingerprint: str) -> str:
    """The first twelve digits: enough to tell fingerprints apart by eye."""
    return fingerprint[:12]


def _part(name: str, values: Sequence[tuple[str, str]]) -> list[Part]:
    """The part, if the groups that have it do not agree about it."""
    by_value: dict[str, list[str]] = {}
    for label, value in values:
        by_value.setdefault(value, []).append(label)
    if len(by_value) < 2:
        return []
    return [Part(name, _SEVERITY.get(name, "warning"), tuple((v, tuple(labels)) for v, labels in by_value.items()))]


def _describe(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Parts of the protocol of one group, in words; what varies over its seeds is listed."""
    first, run = runs[0], runs[0].run
    names = hashlib.sha256("\x00".join(first.classes).encode()).hexdigest()
    values = {
        "source": run.source,
        "classes": f"{len(first.classes)} classes, list {short_hash(names)}",
        "test labels": _hashes(runs, "test"),
        "backbone": run.backbone,
        "protocol": run.protocol,
        "selection metric": first.selected.metric,
        "training images": _listed(str(r.counts["train"].images) for r in runs if "train" in r.counts),
        "truth of the training images": _hashes(runs, "train"),
        "split seeds": _listed(str(r.run.split_seed) for r in runs),
        "observation": run.observe,
    }
    if run.observe != "full":  # with every label observed there is nothing to draw, and clean is observed
        values["observation seeds"] = _listed(str(r.run.observe_seed) for r in runs)
        labels = first.selected.labels
        values["selection"] = "none, the last epoch" if labels == "last" else f"on {labels} validation labels"
        if first.selected.labels == "observed":
            values["unknown cells at selection"] = first.selected.unknown
    for key, value in first.protocol.items():
        if key not in _TOLD:
            values[_WORDS.get(key, key.replace("_", " "))] = str(value)
    budget = {key: str(value) for key, value in fixed_budget(first).items()}
    budget |= dict.fromkeys(searched_keys(first), "chosen by a search")
    return values | {f"budget: {key}": value for key, value in sorted(budget.items())}


def _hashes(runs: Sequence[RunRecord], split: str) -> str:
    return _listed(short_hash(run.fingerprints.get(split, "not recorded")) for run in runs)


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values), key=lambda value: (len(value), value)))


def _observed_labels(members: Sequence[Member]) -> list[Part]:
    """Same observation of the same split with the same seeds must have hidden the same labels."""
    by_setting: dict[tuple[str, str, int, int], dict[str, list[str]]] = {}
    for label, runs in members:
        for record in runs:
            run = record.run
            found = by_setting.setdefault((run.source, run.observe, run.observe_seed, run.split_seed), {})
            labels = found.setdefault(record.fingerprints.get("observed", "not recorded"), [])
            if label not in labels:
                labels.append(label)
    clashes = [found for found in by_setting.values() if len(found) > 1]
    values = {short_hash(h): tuple(labels) for found in clashes for h, labels in found.items()}
    return [Part("observed labels", _SEVERITY["observed labels"], tuple(values.items()))] if values else []


def _unexplained(members: Sequence[Member]) -> list[Part]:
    """Fingerprints that differ although no recorded part does, e.g. in a rule of the metrics or a version."""
    values = [(label, _listed(short_hash(run.fingerprint) for run in runs)) for label, runs in members]
    return _part("fingerprint (the differing part is not recorded in result.json)", values)
