"""A published table on the terminal: our mean and spread beside each number, and what makes ours another experiment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..metrics.intervals import SeedSummary
from ..tables.results import RULES, CellResult, difference, pairs_in_order, share_of_gap
from ..tables.spec import UNPRINTED, Cell, Table
from . import console

Results = Mapping[Cell, CellResult]
Column = tuple[str, Sequence[str]]


def show(table: Table, cells: Sequence[Cell], results: Results, *, wanted: int, drawn_anew: bool) -> None:
    """One table per protocol and data set. `wanted`: runs that every cell should have.

    Differences follow the selection of the recipes beside published figures, observed selection where labels are
    drawn anew: that is a comparison of our own.
    """
    print(f"{table.title}: {table.metric} on {table.split}, percent")
    for protocol, source in dict.fromkeys((cell.protocol, cell.source) for cell in cells):
        here = [cell for cell in cells if (cell.protocol, cell.source) == (protocol, source)]
        print(f"\n{source}, protocol {protocol}")
        _one(table, here, results, wanted, drawn_anew)


def _one(table: Table, cells: Sequence[Cell], results: Results, wanted: int, drawn_anew: bool) -> None:
    here = [results[cell] for cell in cells if cell in results]
    rules = [rule for rule in RULES if any(rule in result.percent for result in here)]
    main = "observed" if drawn_anew and "observed" in rules else here[0].select if here else "clean"
    columns = [
        ("row", [cell.row.label for cell in cells]),
        *_published(cells),
        *((f"ours, {rule} selection", [_ours(results.get(cell), rule) for cell in cells]) for rule in rules),
        ("runs", [f"{len(results[cell].seeds) if cell in results else 0}/{wanted}" for cell in cells]),
        *_against_baseline(table, cells, results, main),
    ]
    if any(result.unknown for result in here):
        columns.append(("unknown labels", [results[cell].unknown if cell in results else "–" for cell in cells]))
    names = [name for name, _ in columns]
    right = [name for name in names[1:] if name != "unknown labels"]
    console.table(names, list(zip(*(values for _, values in columns), strict=True)), right=right)
    others = [o for o in table.others if (o.protocol, o.source) == (cells[0].protocol, cells[0].source)]
    if others:
        print(f"published beside them: {'; '.join(f'{other.label} {other.printed}' for other in others)}")
    for remark in remarks(table, cells, results, main, drawn_anew):
        print(remark)


def _ours(result: CellResult | None, rule: str) -> str:
    return result.text(rule) if result else "–"


def _published(cells: Sequence[Cell]) -> Iterator[Column]:
    if any(cell.printed != UNPRINTED for cell in cells):
        yield "published", [cell.printed for cell in cells]


def _against_baseline(table: Table, cells: Sequence[Cell], results: Results, rule: str) -> Iterator[Column]:
    """The difference to the baseline, and the share of the gap to full labels, published and ours."""
    baseline = _named(table.baseline, cells)
    base = results.get(baseline) if baseline else None
    if baseline:
        apart = (difference(results[cell], base, rule) if base and cell in results else None for cell in cells)
        yield f"- {baseline.row.label}, {rule} [95 %]", [interval(found) for found in apart]
    if table.reference:
        if any(cell.published is not None for cell in cells):
            yield "gap published", [_gap(table, cells, cell, None, rule) for cell in cells]
        yield "gap ours", [_gap(table, cells, cell, results, rule) for cell in cells]


def interval(found: SeedSummary | None) -> str:
    if found is None:
        return "–"
    if math.isnan(found.low):
        return f"{found.mean:+.2f}"
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _named(row: str, cells: Sequence[Cell]) -> Cell | None:
    return next((cell for cell in cells if cell.row.name == row), None)


def _gap(table: Table, cells: Sequence[Cell], cell: Cell, results: Results | None, rule: str) -> str:
    """Share of the way from the baseline to full labels, of the published figures or (with results) of ours."""
    values = []
    for one in (cell, _named(table.baseline, cells), _named(table.reference, cells)):
        result = results.get(one) if results and one else None
        found = result.summary(rule) if result else None
        value = one.published if one and results is None else found.mean if found else None
        if value is None:
            return "–"
        values.append(value)
    share = share_of_gap(*values)
    return "–" if share is None else f"{100 * share:.0f} %"


def remarks(table: Table, cells: Sequence[Cell], results: Results, rule: str, drawn_anew: bool) -> Iterator[str]:
    here = [(cell, results[cell]) for cell in cells if cell in results and results[cell].summary(rule)]
    if not here:
        yield "no finished run"
        return
    counts = Counter(text for _, result in here for text in result.departures)
    if counts:
        printed = any(cell.printed != UNPRINTED for cell, _ in here)
        what = "is not the published experiment" if printed else "departs from the recipes"
        yield f"Ours {what}, so compare orders, not numbers:"
    for text, number in counts.items():
        yield f"  {text}" + ("" if number == len(here) else f" ({number} of {len(here)} rows)")
    if len(here) > 1:
        means = [found.mean for _, result in here if (found := result.summary(rule))]
        agree, of = pairs_in_order([cell.published for cell, _ in here], means)
        if of:
            yield f"{agree} of {of} pairs of rows stand in the published order"
    drawn = "hidden labels drawn anew with each seed" if drawn_anew else "training seeds only, the same hidden labels"
    yield f"± is the standard deviation over runs ({drawn}); differences are paired by seed"
    for oracle in dict.fromkeys(text for _, result in here for text in result.oracles):
        yield f"oracle: {oracle}"
    yield table.note
