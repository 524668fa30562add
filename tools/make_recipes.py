"""Write the recipes of the ROLE system's two tables: `python tools/make_recipes.py`; a test holds them in step.

The recipes are the product: plain TOML files that `tacit train --config` reads. This keeps eighty of them in step with
the published tables (recipes/tables/*.toml), with the settings below, and their headers with docs/results/data/*.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.cli.console import duration
from tacit.run import RunConfig, to_toml
from tacit.tables.results import CellResult, read_exports
from tacit.tables.spec import Cell, read_table

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "recipes" / "tables" / "role_table1.toml"


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
DATA = {
    "voc2012": ("Pascal VOC 2012", "VOCdevkit"),
    "coco2014": ("COCO 2014", "coco"),
    "nuswide": ("NUS-WIDE", "nuswide"),
    "cub": ("CUB-200-2011 attributes", "cub"),
}
# Expected number of positives per image: the mean over the true labels, an oracle (the published program's constants).
EXPECTED_POSITIVES = {"voc2012": 1.5, "coco2014": 2.9, "nuswide": 1.9, "cub": 31.4}
# The linear phase of linear_init is not searched: (lr, batch size) as fixed in the published program.
LINEAR_PHASE = {
    "an_ls": {"voc2012": (1e-4, 8), "coco2014": (1e-4, 8), "nuswide": (1e-4, 16), "cub": (1e-4, 8)},
    "role": {"voc2012": (1e-3, 16), "coco2014": (1e-3, 16), "nuswide": (1e-3, 16), "cub": (1e-3, 8)},
}
# torchvision's first ImageNet weights, which the published program loads.
BACKBONE, IMAGE_SIZE = "resnet50.tv_in1k", 448
NOTES = {
    "select": "an oracle: true labels of the validation images, as published",
    "also_select": "what an honest selection gives, from the same training",
    "search": "2 batch sizes x 4 learning rates",
    "k": "an oracle: the mean of the true labels",
    "drop_last": "as published",
}


def settings(cell: Cell, where: str) -> RunConfig:
    loss = LOSSES[cell.row.name]
    budget: dict[str, float | int | bool] = {"drop_last": True}
    if cell.protocol == "linear_init":
        lr, batch_size = LINEAR_PHASE[cell.row.name][cell.source]
        budget |= {"linear_drop_last": True, "linear_batch_size": batch_size, "linear_lr": lr}
    return RunConfig(
        source=cell.source,
        method=loss.method,
        observe=loss.observe,
        protocol=cell.protocol,  # type: ignore[arg-type]
        backbone=BACKBONE,
        image_size=IMAGE_SIZE,
        select="clean",
        also_select=("observed",),
        search="published",
        published=cell.published,
        published_where=where,
        method_options={"k": EXPECTED_POSITIVES[cell.source]} if loss.needs_k else {},
        budget=budget,
    )


def body(config: RunConfig) -> str:
    """Only what differs from the defaults, what is unusual explained."""
    usual = set(to_toml(RunConfig(source="")).splitlines())
    lines = [line for line in to_toml(config).splitlines() if line not in usual or not line]
    method = f'method = "{config.method}"'
    if method not in lines:
        lines.insert(1, method)  # said even where it is the default: it is the row
    if config.protocol == "linear":
        lines.insert(2, 'protocol = "linear"')
    notes = NOTES
    if config.observe == "full":  # every label is observed: there is no second selection to compare with
        notes = NOTES | {"select": "no oracle here: the row is given all labels"}
        lines.remove('also_select = ["observed"]')
    return "\n".join(_explained(line, notes) for line in lines).strip() + "\n"


def _explained(line: str, notes: Mapping[str, str]) -> str:
    note = notes.get(line.partition(" = ")[0])
    return f"{line}  # {note}" if note else line


def header(cell: Cell, title: str, results: list[CellResult]) -> str:
    name, folder = DATA[cell.source]
    lines = [
        f"{cell.row.label} ({cell.row.labels}), protocol {cell.protocol}, {name}: one cell of",
        f"{title}.",
        "",
        f"  tacit train --config recipes/{cell.recipe}.toml --data {folder} --out runs/{cell.recipe}",
        "",
        f"Published: {cell.published} test mAP.",
        *(
            [line for result in results for line in _ours(result)]
            or ["Ours: none yet; docs/results/ledger.md says why."]
        ),
        _time(results),
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _ours(result: CellResult) -> list[str]:
    said = f"Ours: {result.text('clean')} ({result.seeds_text()})"
    return [f"{said}, as published." if not result.departures else f"{said}, not the same experiment:"] + [
        f"  {departure}" for departure in result.departures
    ]


def _time(results: list[CellResult]) -> str:
    if not results:
        return "Time: not measured here."
    told = [f"{duration(result.seconds)} per run on {result.device} with the settings of ours" for result in results]
    return f"Time: {'; '.join(dict.fromkeys(told))}."


def recipes() -> dict[Path, str]:
    """Every recipe's path and text."""
    table = read_table(TABLE)
    measured = [result for result in read_exports(ROOT / "docs" / "results" / "data") if result.table == table.name]
    out = {}
    for cell in table.cells:
        mine = [result for result in measured if result.recipe == cell.recipe]
        text = header(cell, table.title, mine) + body(settings(cell, table.where))
        out[ROOT / "recipes" / f"{cell.recipe}.toml"] = text
    return out


def main() -> None:
    written = 0
    for path, text in recipes().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
            written += 1
    print(f"{written} of {len(recipes())} recipes written")


if __name__ == "__main__":
    main()
