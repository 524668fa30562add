"""Published names that are an existing method with some of its options decided.

A paper's table often lists one formula under several names. Here each name says whose formula it is and what it fixes,
so that the formula is written once and every name can still be typed, listed, and found on a page of its own.
No torch: listing names is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Name:
    """`fixed` is what the name means and no longer an option; `defaults` may be changed."""

    method: str  # the module
    about: str
    needs: str = "some positives; negatives may be unknown"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""  # docs/methods/….md, where it shares that of another name


_PLAIN = {"smoothing": 0.0, "smoothed": "all", "l1": 0.0, "l2": 0.0}


def _bce(**fixed: Any) -> dict[str, Any]:
    """Everything about BCE that such a name does not leave open is as in plain BCE."""
    return {"unknown": "negative", **_PLAIN, **fixed}


def _without(fixed: dict[str, Any], *free: str) -> dict[str, Any]:
    return {key: value for key, value in fixed.items() if key not in free}


def _large(about: str, scheme: str) -> Name:
    return Name("large_loss", about, fixed={"scheme": scheme}, page="large_loss")


NAMES: Mapping[str, Name] = {
    "bce_ls": Name(
        "bce",
        "Binary cross-entropy over known labels, with label smoothing.",
        "known negatives beside positives: full labels, or a share of them",
        fixed=_without(_bce(), "unknown", "smoothing"),
        defaults={"smoothing": 0.1},
    ),
    "s_bce": Name(
        "bce",
        "Binary cross-entropy over known labels, divided by all cells: the weaker the fewer labels are known.",
        "known negatives beside positives: full labels, or a share of them",
        fixed=_bce(unknown="ignore"),
        page="bn_bce",
    ),
    "an": Name("bce", "Binary cross-entropy that takes every unknown label for a negative.", fixed=_bce()),
    "an_ls": Name(
        "bce",
        "Assume negative with label smoothing, so that a wrong negative costs less than certainty.",
        fixed=_without(_bce(), "smoothing"),
        defaults={"smoothing": 0.1},
    ),
    "ls": Name(
        "bce",
        "Another name of an_ls (label smoothing, in the table of EM).",
        fixed=_without(_bce(), "smoothing"),
        defaults={"smoothing": 0.1},
        page="an_ls",
    ),
    "n_ls": Name(
        "bce",
        "Assume negative with smoothed targets for unknown labels only; positives stay certain.",
        fixed=_without(_bce(smoothed="unknown"), "smoothing"),
        defaults={"smoothing": 0.1},
    ),
    "l1r": Name(
        "bce",
        "Assume negative, plus a penalty on the sum of absolute weights.",
        fixed=_without(_bce(), "l1"),
        defaults={"l1": 1e-6},
    ),
    "l2r": Name(
        "bce",
        "Assume negative, plus a penalty on the sum of squared weights.",
        fixed=_without(_bce(), "l2"),
        defaults={"l2": 1e-6},
        page="l1r",
    ),
    "dw": Name("wan", "Assume negative with unknown labels weighed down by a free weight.", defaults={"weight": 0.5}),
    "entmin": Name(
        "em",
        "Cross-entropy over known labels, and the entropy of unknown ones minimised: EM with the sign turned.",
        fixed={"entropy": "minimise"},
    ),
    "focal": Name(
        "asl",
        "Focal loss: cross-entropy that looks away from cells it already gets right.",
        fixed={"clip": 0.0, "detach": False, "floor": 0.0},
        defaults={"gamma_pos": 2.0, "gamma_neg": 2.0},
    ),
    "ll_r": _large("Assume negative; what has a large loss is left out.", "reject"),
    "ll_ct": _large("Assume negative; what has a large loss counts as positive in that step.", "correct"),
    "ll_cp": _large("Assume negative; what has a large loss becomes positive for good.", "keep"),
}
