"""Settings of "Multi-Label Learning from Single Positive Labels" (Cole et al. 2021): two tables over the same runs."""

from __future__ import annotations

from dataclasses import dataclass

from papers.recipe import BACKBONE, EXPECTED_POSITIVES, IMAGE_SIZE, Recipe
from tacit.run import RunConfig
from tacit.tables.spec import Cell, Table


@dataclass(frozen=True)
class Loss:
    """A row of the table as method and observation."""

    method: str
    observe: str = "single-positive"
    needs_k: bool = False


LOSSES = {
    "bce": Loss("bce", "full"),
    "bce_ls": Loss("bce_ls", "full"),
    "iun": Loss("bce", "one-positive-all-negatives"),
    "iu": Loss("bce", "one-positive-one-negative"),
    "an": Loss("an"),
    "an_ls": Loss("an_ls"),
    "wan": Loss("wan"),
    "epr": Loss("epr", needs_k=True),
    "role": Loss("role", needs_k=True),
}
# The linear phase of linear_init is not searched: (lr, batch size) as fixed in the published program.
LINEAR_PHASE = {
    "an_ls": {"voc2012": (1e-4, 8), "coco2014": (1e-4, 8), "nuswide": (1e-4, 16), "cub": (1e-4, 8)},
    "role": {"voc2012": (1e-3, 16), "coco2014": (1e-3, 16), "nuswide": (1e-3, 16), "cub": (1e-3, 8)},
}
NOTES = {
    "select": "an oracle: true labels of the validation images, as published",
    "also_select": "what an honest selection gives, from the same training",
    "search": "2 batch sizes x 4 learning rates",
    "k": "an oracle: the mean of the true labels",
    "drop_last": "as published",
}
FULL_LABELS = {"select": "no oracle here: the row is given all labels"}


def table1(cell: Cell, table: Table) -> Recipe:
    loss = LOSSES[cell.row.name]
    full = loss.observe == "full"  # every label is observed: there is no second selection to compare with
    budget: dict[str, float | int | bool] = {"drop_last": True}
    if cell.protocol == "linear_init":
        lr, batch_size = LINEAR_PHASE[cell.row.name][cell.source]
        budget |= {"linear_drop_last": True, "linear_batch_size": batch_size, "linear_lr": lr}
    config = RunConfig(
        source=cell.source,
        method=loss.method,
        observe=loss.observe,
        protocol=cell.protocol,  # type: ignore[arg-type]
        backbone=BACKBONE,
        image_size=IMAGE_SIZE,
        select="clean",
        also_select=() if full else ("observed",),
        search="published",
        published=cell.published,
        published_where=table.where,
        method_options={"k": EXPECTED_POSITIVES[cell.source]} if loss.needs_k else {},
        budget=budget,
    )
    return Recipe(config, NOTES | FULL_LABELS if full else NOTES)
