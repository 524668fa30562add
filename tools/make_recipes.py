"""Write the recipes of the published tables: `python tools/make_recipes.py`; a test holds them in step.

The recipes are the product: plain TOML files that `tacit train --config` reads. This keeps them in step with the
tables (recipes/tables/*.toml) and each paper's settings (tools/papers), and their headers with docs/results/data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from papers import em, role, saliency
from papers.recipe import Recipe, text
from tacit.tables.results import read_exports
from tacit.tables.spec import Cell, Table, read_table

ROOT = Path(__file__).resolve().parents[1]
# Table 2 of the ROLE paper reads the runs of its Table 1, and has no recipes of its own; nor have tables of another
# metric of the same runs. A recipe that two tables share is written by the first.
TABLES: dict[str, Callable[[Cell, Table], Recipe]] = {
    "role_table1": role.table1,
    "em_benchmark": em.benchmark,
    "em_shares": em.shares,
    "em_coefficients": em.coefficients,
    "sr_ablation": saliency.row,
    "sr_averages": saliency.row,
    "sr_k": saliency.row,
    "sr_openimages": saliency.row,
    "pumlc_shares": saliency.row,
}


def recipes() -> dict[Path, str]:
    """Every recipe's path and text."""
    measured = read_exports(ROOT / "docs" / "results" / "data")
    out: dict[Path, str] = {}
    for name, recipe_of in TABLES.items():
        table = read_table(ROOT / "recipes" / "tables" / f"{name}.toml")
        by_file: dict[str, list[Cell]] = {}
        for cell in table.cells:
            by_file.setdefault(cell.file, []).append(cell)
        for file, cells in by_file.items():
            mine = [r for r in measured if r.table == name and r.recipe in {cell.recipe for cell in cells}]
            out.setdefault(ROOT / "recipes" / f"{file}.toml", text(cells, table, recipe_of(cells[0], table), mine))
    return out


def main() -> None:
    written = 0
    for path, content in recipes().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != content:
            path.write_text(content)
            written += 1
    print(f"{written} of {len(recipes())} recipes written")


if __name__ == "__main__":
    main()
