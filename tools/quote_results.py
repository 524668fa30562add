"""Write the section "Results" of every method's page from docs/results/data: `python tools/quote_results.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tacit.methods.names import NAMES
from tacit.tables.ledger import of_cell
from tacit.tables.results import RULES, CellResult, read_exports
from tacit.tables.spec import Cell, Table, find_table, table_names

ROOT = Path(__file__).resolve().parents[1]
RECIPES, RESULTS, PAGES = ROOT / "recipes", ROOT / "docs" / "results", ROOT / "docs" / "methods"
ROLE_PAGES = {"linear": "voc2012-linear.md", "finetune": "voc2012-finetune.md", "linear_init": "voc2012-finetune.md"}
EM_PAGES = {"linear": "em-linear.md", "finetune": "em-finetune.md", "linear_init": "em-finetune.md"}
PARTIAL_PAGES = {"finetune": "sr-finetune.md"}
PARTIAL_TABLES = [name for name in table_names(RECIPES) if name.startswith(("sr_", "pumlc_"))]
SHARES_PAGES = dict.fromkeys(("linear", "finetune"), "em-shares.md")
READING = {
    "role_table1": ROLE_PAGES,
    "role_table2": ROLE_PAGES,
    "em_benchmark": EM_PAGES,
    "em_shares": SHARES_PAGES,
} | dict.fromkeys(PARTIAL_TABLES, PARTIAL_PAGES)
Found = tuple[Table, Cell, CellResult]
WHAT = {"test": "test mAP", "train": "label recovery (train mAP)"}
PARTIAL_INTRODUCTION = """\
Pascal VOC 2012, mean ± sd over training seeds. Observed selection takes the epoch from the validation labels a run is
given; last is the last epoch."""
INTRODUCTION = """\
Pascal VOC 2012, mean ± sd over three training seeds. Clean selection takes epoch and learning rate from true validation
labels, as the paper does; observed selection from the labels a run is given."""
STOPPING = """
Clean-stop is early stopping: the best epoch before the first that does not improve on true validation labels, as in the
paper of EM."""
DIFFERENCES = """
Ours is another experiment than the published one, so compare rows with each other. It differs in:
"""
END = """
Commands, all rows and what to make of them: behind the protocols' names."""
NOT_YET = "Its rows of published tables have not run here yet; [the ledger](../results/ledger.md) says why."
NONE = "No published table that is reproduced here has a row of this method: there is no figure to compare with."


def section(page: str) -> str:
    """The text below the heading, for all methods that share the page."""
    methods = {page, *(name for name, about in NAMES.items() if about.page == page)}
    rows = [row for name in table_names(RECIPES) for row in _rows(find_table(name, RECIPES), methods)]
    if not any(table.in_print for table, _ in rows):
        return NONE
    exports = [r for r in read_exports(RESULTS / "data") if len(set(r.observe_seeds)) <= 1]  # the others: own pages
    found = [(table, cell, result) for table, cell in rows for result in of_cell(cell, exports)]
    if not found:
        return NOT_YET
    rules = [rule for rule in RULES if any(rule in result.percent for _, _, result in found)]
    lines = [
        "| row | protocol | percent | published | " + " | ".join(f"ours, {rule} selection" for rule in rules) + " |",
        "|---|---|---|--:" + "|--:" * len(rules) + "|",
        *(_line(row, rules) for row in _together(found)),
    ]
    departures: dict[str, dict[str, None]] = {}
    for _, cell, result in found:
        departures.setdefault(cell.protocol, {}).update(dict.fromkeys(result.departures))
    differs = [f"* {protocol}: {'; '.join(texts)}" for protocol, texts in departures.items()]
    stopped = STOPPING if "clean-stop" in rules else ""
    introduction = INTRODUCTION if "clean" in rules else PARTIAL_INTRODUCTION
    return "\n".join([introduction + stopped, "", *lines, DIFFERENCES, *differs, END])


def _together(found: Sequence[Found]) -> list[list[Found]]:
    """What one recipe has along an axis stands in one line."""
    rows: dict[tuple[str, str, str], list[Found]] = {}
    for table, cell, result in found:
        name = cell.file if table.axis else f"{cell.recipe} {len(rows)}"
        rows.setdefault((table.name, name, result.inputs), []).append((table, cell, result))
    return list(rows.values())


def _line(row: Sequence[Found], rules: Sequence[str]) -> str:
    table, cell, _ = row[0]
    where = f"[{cell.protocol}](../results/{READING[table.name][cell.protocol]})"
    what = WHAT[table.split] if table.metric == "mAP" else f"{table.split} {table.metric}"
    columns = [[one.printed for _, one, _ in row], *([result.text(rule) for _, _, result in row] for rule in rules)]
    at = [f" ({one.row.at})" if one.row.at else "" for _, one, _ in row]
    figures = " | ".join(", ".join(f"{text}{said}" for text, said in zip(texts, at, strict=True)) for texts in columns)
    return f"| {cell.row.base_label}, {cell.row.labels} | {where} | {what} | {figures} |"


def _rows(table: Table, methods: set[str]) -> list[tuple[Table, Cell]]:
    """The cells whose recipe has one of these methods."""
    lines = {f'method = "{method}"' for method in methods}
    return [(table, cell) for cell in table.cells if lines & _recipe_lines(cell.file)]


@cache
def _recipe_lines(file: str) -> frozenset[str]:
    return frozenset((RECIPES / f"{file}.toml").read_text().splitlines())


def pages() -> dict[Path, str]:
    """Every method's page as it should be."""
    return {path: _with_section(path.read_text(), section(path.stem)) for path in sorted(PAGES.glob("*.md"))}


def _with_section(page: str, text: str) -> str:
    return re.sub(r"(?<=\n## Results\n\n).*?(?=\n\n## |\n*\Z)", lambda _: text, page, flags=re.DOTALL)


def main() -> None:
    written = 0
    for path, text in pages().items():
        if path.read_text() != text:
            path.write_text(text)
            written += 1
    print(f"{written} pages of methods written")


if __name__ == "__main__":
    main()
