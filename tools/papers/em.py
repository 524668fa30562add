"""Settings of "Acknowledging the Unknown" (Zhou et al. 2022): its benchmark, its missing labels, and what it left open.

The paper fine-tunes for ten epochs without a search and stops at the first epoch that does not improve on clean
validation labels. Its linear protocol is ours: 25 epochs, and a search as in the ROLE paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from papers.recipe import BACKBONE, EXPECTED_POSITIVES, IMAGE_SIZE, Recipe
from papers.role import LINEAR_PHASE
from tacit.run import RunConfig
from tacit.tables.spec import Cell, Table


@dataclass(frozen=True)
class DataSet:
    """The published program's constants for a data set."""

    batch_size: int
    lr: float
    alpha: float  # weight of the entropy term
    beta: float  # weight of pseudo-labels
    warm_up: int  # epochs of EM alone, of ten


DATA_SETS = {
    "voc2012": DataSet(8, 1e-5, alpha=0.2, beta=0.02, warm_up=5),
    "coco2014": DataSet(16, 1e-5, alpha=0.1, beta=0.9, warm_up=5),
    "nuswide": DataSet(16, 1e-5, alpha=0.1, beta=0.2, warm_up=4),
    "cub": DataSet(8, 1e-4, alpha=0.01, beta=0.4, warm_up=3),
}
SHARE = 0.9  # of each class's unknown labels, pseudo-labelled by the last round
LINEAR_WARM_UP = 12  # of 25 epochs: half of them, as 5 of 10 on VOC 2012


@dataclass(frozen=True)
class Coefficient:
    """A coefficient that the paper leaves open: what to try on VOC 2012, and what each protocol takes."""

    option: str
    grid: tuple[float, ...]
    linear: float
    finetune: float
    searched: tuple[str, ...] = ()  # protocols whose value won that search; the others have a usual one

    def taken(self, protocol: str) -> float:
        return self.linear if protocol == "linear" else self.finetune


# To be filled in with what `tacit table em_coefficients` chooses, on clean validation labels.
COEFFICIENTS = {
    "dw": Coefficient("weight", (0.05, 0.1, 0.2, 0.5), linear=0.05, finetune=0.1, searched=("linear", "finetune")),
    "l1r": Coefficient("l1", (1e-7, 1e-6, 1e-5, 1e-4), linear=1e-5, finetune=1e-6, searched=("linear", "finetune")),
    "l2r": Coefficient("l2", (1e-7, 1e-6, 1e-5, 1e-4), linear=1e-4, finetune=1e-6, searched=("linear", "finetune")),
    "ls": Coefficient("smoothing", (0.05, 0.1), linear=0.05, finetune=0.05, searched=("linear", "finetune")),
    "n_ls": Coefficient("smoothing", (0.05, 0.1), linear=0.1, finetune=0.1, searched=("linear", "finetune")),
    "asl": Coefficient("gamma_pos", (0.0, 1.0), linear=0.0, finetune=0.0, searched=("linear", "finetune")),
}
OBSERVED = {"bce": "full", "iun": "one-positive-all-negatives"}  # every other row: single-positive
METHODS = {"iun": "bce"}  # every other row: the method of its name
SHARES_SEED = 1200  # that of the paper's single positives; its seed for shares is unknown
# Stopping as the published program does it; all three are read off the same training where it runs to its end.
RULES = ("clean-stop", "clean", "observed")
SHORT_SEARCH = "batch_size=16 lr=1e-3,1e-4"  # where the published grid's choices lie for fixed features

NOTES = {
    "observe_seed": "ours: the paper's is unknown",
    "k": "an oracle: the mean of the true labels",
    "alpha": "of the published program, per data set",
}
STOPPING = "the authors' early stopping, an oracle: true labels of the validation images"
BEST = "an oracle: true labels of the validation images"
ALSO = {
    "finetune": "what the best epoch, and labels that one has, would have kept",
    "linear": "what early stopping, and labels that one has, would have kept",
}
FULL_LABELS = {
    "select": "no oracle here: the row is given all labels",
    "also_select": "what the other rule would have kept",
}
OURS = "The paper has no linear protocol: its budget and search are ours."
SAME_PHASE = "The paper does not say how its linear phase was trained: the settings are those of the ROLE paper."


@dataclass(frozen=True)
class Row:
    """A row as method, observation and hyper-parameters."""

    method: str
    observe: str = "single-positive"
    options: Mapping[str, Any] = field(default_factory=dict)


def benchmark(cell: Cell, table: Table) -> Recipe:
    name = cell.row.name
    row = Row(METHODS.get(name, name), OBSERVED.get(name, "single-positive"), _options(name, cell))
    budget: dict[str, Any] = {}
    remarks: tuple[str, ...] = ()
    if name in COEFFICIENTS:
        remarks += _open(cell)
    if cell.protocol == "linear_init":
        lr, batch_size = LINEAR_PHASE[name][cell.source]
        budget |= {"linear_batch_size": batch_size, "linear_lr": lr}
        remarks += (SAME_PHASE,)
    return _recipe(cell, table, row, search="published", budget=budget, remarks=remarks)


def shares(cell: Cell, table: Table) -> Recipe:
    """`em_apl_20`: the method, and the share of labels that are known."""
    name, _, percent = cell.row.name.rpartition("_")
    if not name:
        return _recipe(cell, table, Row("bce", "full"), search=SHORT_SEARCH)
    method, _, unknown = name.partition("_") if name.startswith("bce") else (name, "", "")
    options = {"unknown": unknown} if unknown else _options(name, cell)
    return _recipe(cell, table, Row(method, f"known-share:{int(percent) / 100:g}", options), search=SHORT_SEARCH)


def coefficients(cell: Cell, table: Table) -> Recipe:
    """The search for a row's coefficient: for fixed features together with the learning rate."""
    open_one = COEFFICIENTS[cell.row.name]
    axis = f"{open_one.option}={','.join(f'{value:g}' for value in open_one.grid)}"
    fixed = {key: value for key, value in _options(cell.row.name, cell).items() if key != open_one.option}
    search = f"{SHORT_SEARCH} {axis}" if cell.protocol == "linear" else axis
    return _recipe(cell, table, Row(cell.row.name, options=fixed), search=search)


def _options(method: str, cell: Cell) -> dict[str, Any]:
    data = DATA_SETS[cell.source]
    if method in COEFFICIENTS:
        return {COEFFICIENTS[method].option: COEFFICIENTS[method].taken(cell.protocol)}
    if method == "role":
        return {"k": EXPECTED_POSITIVES[cell.source]}
    if method in ("em", "entmin"):
        return {"alpha": data.alpha}
    if method == "em_apl":
        warm_up = LINEAR_WARM_UP if cell.protocol == "linear" else data.warm_up
        return {"alpha": data.alpha, "beta": data.beta, "share": SHARE, "warm_up": warm_up}
    return {}


def _recipe(
    cell: Cell,
    table: Table,
    row: Row,
    *,
    search: str,
    budget: Mapping[str, Any] | None = None,
    remarks: tuple[str, ...] = (),
) -> Recipe:
    linear, full = cell.protocol == "linear", row.observe == "full"
    data = DATA_SETS[cell.source]
    rules = (RULES[1], RULES[0], RULES[2]) if linear else RULES
    given = cell.published is not None
    config = RunConfig(
        source=cell.source,
        method=row.method,
        observe=row.observe,
        protocol=cell.protocol,  # type: ignore[arg-type]
        backbone=BACKBONE,
        image_size=IMAGE_SIZE,
        observe_seed=SHARES_SEED if row.observe.startswith("known-share") else None,
        select=rules[0],  # type: ignore[arg-type]
        also_select=rules[1:2] if full else rules[1:],  # type: ignore[arg-type]
        search=search if linear or table.name == "em_coefficients" else "",
        published=cell.published,
        published_where=table.where if given else None,
        method_options=dict(row.options),
        budget={} if linear else {"batch_size": data.batch_size, "lr": data.lr, **(budget or {})},
    )
    notes = NOTES | {"select": BEST if linear else STOPPING, "also_select": ALSO["linear" if linear else "finetune"]}
    if linear:
        notes["warm_up"] = "half of the epochs, as published for VOC 2012"
    if row.method == "entmin":
        notes["alpha"] = "unpublished; that of EM"
    if search == "published":
        notes["search"] = "2 batch sizes x 4 learning rates"
    return Recipe(config, notes | FULL_LABELS if full else notes, remarks + ((OURS,) if linear else ()))


def _open(cell: Cell) -> tuple[str, ...]:
    """Where a coefficient that the paper leaves open comes from."""
    found = COEFFICIENTS[cell.row.name]
    if cell.protocol not in found.searched:
        return (f"The paper does not publish its {found.option}: the one below is a usual value, not searched for.",)
    grid = ", ".join(f"{value:g}" for value in found.grid)
    return (
        f"The paper does not publish its {found.option}: the one below won a search over {grid} on clean",
        f"validation labels of VOC 2012, recipes/voc2012/em/search/{cell.row.name}_{cell.protocol}.toml.",
    )
