"""Settings of "Saliency Regularization for Self-Training with Partial Annotations" (Wang et al. 2023) and its rivals.

Known of the paper: ResNet-101, SGD with momentum 0.9 and weight decay 1e-4, batch 32, alpha 0.5, k 5, tau 0.6. Learning
rate, schedule, epochs, image size and augmentation are in a supplement that could not be reached: here 448 pixels and
the crops of the methods it is compared with, and a schedule of ours. Rivals keep the optimiser they were published
with. One recipe serves all shares of known labels: the share is `--observe known-share:0.1` to `known-share:0.9`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from papers.recipe import Recipe
from tacit.run import RunConfig
from tacit.tables.spec import Cell, Table

BACKBONE = "resnet101.tv_in1k"
IMAGE_SIZE, OPENIMAGES_SIZE = 448, 224
# What this literature reads of COCO, and draws its masks on: all 82,783 training images, also those without an
# annotation, and classes by increasing id.
SOURCE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"coco2014": {"rows": "all", "columns": "id"}}
ONE_VIEW, TWO_VIEWS, STRONG = "crop", "crop,strong_crop", "strong"

PUBLISHED = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-4, "batch_size": 32}
OURS = {"lr": 0.01, "head_lr": 10.0, "schedule": "cosine", "epochs": 30}
# The pipeline of SST, HST and SARB, in which their authors re-ran partial BCE, curriculum labelling and ASL.
HCP = {"lr": 1e-5, "weight_decay": 5e-4, "batch_size": 32, "schedule": "step:10", "epochs": 20}
# Of a cycle of 80 epochs the first 30.
SPLC = {"lr": 1e-4, "batch_size": 128, "schedule": f"onecycle:{80 / 30:.4g}", "epochs": 30}
CSL = {"lr": 2e-4, "batch_size": 64, "schedule": "onecycle", "epochs": 30}


@dataclass(frozen=True)
class Row:
    """A row as method, its options and its budget."""

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=lambda: PUBLISHED | OURS)
    views: str = ONE_VIEW
    remarks: tuple[str, ...] = ()


SCHEDULE = (
    "Learning rate, schedule, epochs and crops are ours (the paper's are in a supplement that could not be reached).",
)
HCP_REMARK = (
    "Optimiser and schedule are those of the HCP-MLR-PL program (SST, HST, SARB), whose authors re-ran this method; it",
    "also keeps all but the last block of the backbone frozen, which is not done here.",
)
SUMMED = (
    "Its own program averages weights over steps (EMA), which is not done here, and sums its loss over all cells: a",
    "weight decay is next to nothing beside that. Here the loss is a mean, and there is none.",
)

ABLATION = {
    "s_bce": Row("saliency", {"pseudo": "none", "regularise": "none", "normalise": "cells"}, remarks=SCHEDULE),
    "bn_bce": Row("saliency", {"pseudo": "none", "regularise": "none"}, remarks=SCHEDULE),
    "bn_bce_pl": Row("saliency", {"pseudo": "same-view", "regularise": "none"}, remarks=SCHEDULE),
    "bn_bce_cr": Row("saliency", {"regularise": "none"}, views=TWO_VIEWS, remarks=SCHEDULE),
    "bn_bce_sr": Row("saliency", {"pseudo": "none"}, remarks=SCHEDULE),
    "sr_cr": Row("saliency", {"regularise": "supervised"}, views=TWO_VIEWS, remarks=SCHEDULE),
    "saliency": Row("saliency", views=TWO_VIEWS, remarks=SCHEDULE),
}
RIVALS = {
    "partial_bce": Row("partial_bce", budget=HCP, remarks=HCP_REMARK),
    "plcl": Row("plcl", budget=HCP, remarks=HCP_REMARK),
    "asl": Row("asl", {"unknown": "ignore", "detach": False}, HCP, remarks=HCP_REMARK),
    "splc": Row("splc", budget=SPLC, views=STRONG, remarks=SUMMED),
    "csl": Row("csl", {"eta": 0.5}, CSL, remarks=SUMMED),
}
ROWS = ABLATION | RIVALS | {"places": ABLATION["bn_bce_sr"]}

NOTES = {
    "also_select": "the last epoch. --val none trains on every row and reports that one alone",
    "lr": "ours",
    "head_lr": "ours: times lr",
    "schedule": "ours",
    "epochs": "ours",
    "eta": "as in the program's documentation; its default is 0.05",
    "detach": "as the HCP-MLR-PL program has it for partial labels",
    "rows": "all images, also those without an annotation, as this literature keeps COCO",
    "columns": "classes by increasing id: the published mask of known labels depends on their order",
    "augment": "the pipeline of this literature: resize, crop, resize, flip",
}
OF_RIVALS = {"lr": "as published", "schedule": "as published", "epochs": "as published"}
NOTES_BY_VIEWS = {
    TWO_VIEWS: {"augment": "the pipeline of this literature, and a stronger second view"},
    STRONG: {"augment": "RandAugment and Cutout, as published"},
}
SMALL_IMAGES = (
    "The paper says ResNet-101 only. IMCL, which it is compared with, starts from weights trained on Open Images, with",
    "images of 224 pixels; these are ImageNet weights.",
)
DENSE = ("It keeps a label per image and class: 18 GB here.",)


def row(cell: Cell, table: Table) -> Recipe:
    """A row of the ablation, of the averages over shares, or of a rival; Open Images hides nothing further."""
    mine, really_partial = ROWS[_name(cell)], cell.source == "openimages"
    config = RunConfig(
        source=cell.source,
        method=mine.method,
        observe="full" if really_partial else _observed(cell, table),
        protocol=cell.protocol,  # type: ignore[arg-type]
        backbone=BACKBONE,
        image_size=OPENIMAGES_SIZE if really_partial else IMAGE_SIZE,
        also_select=("last",),
        published=cell.published if table.axis is None else None,
        published_where=table.where if table.axis is None and cell.published is not None else None,
        method_options=dict(mine.options),
        source_options=dict(SOURCE_OPTIONS.get(cell.source, {})),
        budget={**mine.budget, "augment": mine.views},
    )
    notes = NOTES | NOTES_BY_VIEWS.get(mine.views, {}) | (OF_RIVALS if _name(cell) in RIVALS else {})
    if really_partial:
        notes = notes | {"observe": "its labels are partial as they are"}
    dense = DENSE if really_partial and mine.method == "plcl" else ()
    return Recipe(config, notes, mine.remarks + (SMALL_IMAGES if really_partial else ()) + dense)


def _name(cell: Cell) -> str:
    """places_20 -> places: the share is in its name where the axis is another setting."""
    return cell.row.base.removesuffix("_20").removesuffix("_50")


def _observed(cell: Cell, table: Table) -> str:
    """The first value of the axis, where it is the share; else the share in the row's name."""
    if table.axis is not None and table.axis.setting == "observe":
        return next(iter(table.axis.values.values()))
    return f"known-share:0.{cell.row.base[-2]}"
