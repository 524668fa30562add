"""Write the section "Results" of every method's page from docs/results/data: `python tools/quote_results.py`."""

from __future__ import annotations

import re
from pathlib import Path

from tacit.tables.ledger import of_cell
from tacit.tables.results import CellResult, read_exports
from tacit.tables.spec import Cell, Table, find_table, table_names

ROOT = Path(__file__).resolve().parents[1]
RECIPES, RESULTS, PAGES = ROOT / "recipes", ROOT / "docs" / "results", ROOT / "docs" / "methods"
READING = {"linear": "voc2012-linear.md", "finetune": "voc2012-finetune.md", "linear_init": "voc2012-finetune.md"}
WHAT = {"test": "test mAP", "train": "label recovery (train mAP)"}
INTRODUCTION = """\
Pascal VOC 2012, mean ± sd over three training seeds. Clean selection takes epoch and learning rate from true validation
labels, as the paper does; observed selection from the labels a run is given.

| row | protocol | percent | published | ours, clean selection | ours, observed selection |
|---|---|---|--:|--:|--:|"""
DIFFERENCES = """
Ours is another experiment than the published one, so compare rows with each other. It differs in:
"""
END = """
Commands, all rows and what to make of them: behind the protocols' names."""
NONE = "No published table that is reproduced here has a row of this method: there is no figure to compare with."


def section(method: str) -> str:
    """The text below the heading."""
    lines: list[str] = []
    departures: dict[str, dict[str, None]] = {}
    for table in (find_table(name, RECIPES) for name in table_names(RECIPES)):
        for cell, result in _measured(table, method):
            where = f"[{cell.protocol}](../results/{READING[cell.protocol]})"
            figures = f"{cell.published:.1f} | {result.text('clean')} | {result.text('observed')}"
            lines.append(f"| {cell.row.label}, {cell.row.labels} | {where} | {WHAT[table.split]} | {figures} |")
            departures.setdefault(cell.protocol, {}).update(dict.fromkeys(result.departures))
    if not lines:
        return NONE
    differs = [f"* {protocol}: {'; '.join(texts)}" for protocol, texts in departures.items()]
    return "\n".join([INTRODUCTION, *lines, DIFFERENCES, *differs, END])


def _measured(table: Table, method: str) -> list[tuple[Cell, CellResult]]:
    """Runs with the labels hidden as published; the tables with labels drawn anew have pages of their own."""
    exports = [r for r in read_exports(RESULTS / "data") if len(set(r.observe_seeds)) <= 1]
    found = []
    for cell in table.cells:
        path = RECIPES / f"{cell.recipe}.toml"
        if f'method = "{method}"' in path.read_text().splitlines():
            found += [(cell, result) for result in of_cell(cell, exports)]
    return found


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
