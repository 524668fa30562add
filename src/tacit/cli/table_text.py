"""A published table on the terminal: our mean and spread beside each number, and what makes ours another experiment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..metrics.intervals import SeedSummary
from ..tables.results import CellResult, difference, pairs_in_order, share_of_gap
from ..tables.spec import Cell, Table
from . import console

Results = Mapping[Cell, CellResult]
RULES = ("clean", "observed", "last")


def show(table: Table, cells: Sequence[Cell], results: Results, *, wanted: int, drawn_anew: bool) -> None:
    """One table per protocol and data set. `wanted`: runs that every cell should have.

    Differences follow clean selection beside published figures, observed selection where labels are drawn anew: that
    is a comparison of our own.
    """
    print(f"{table.title}: {table.metric} on {table.split}, percent")
    for protocol, source in dict.fromkeys((cell.protocol, cell.source) for cell in cells):
        here = [cell for cell in cells if (cell.protocol, cell.source) == (protocol, source)]
        print(f"\n{source}, protocol {protocol}")
        _one(table, here, results, wanted, drawn_anew)


def _one(table: Table, cells: Sequence[Cell], results: Results, wanted: int, drawn_anew: bool) -> None:
    rules = [rule for rule in RULES if any(rule in results[cell].percent for cell in cells if cell in results)]
    main = "observed" if drawn_anew and "observed" in rules else rules[0] if rules else "clean"
    baseline = _named(table.baseline, cells)
    against = f"- {baseline.row.label}, {main} [95 %]" if baseline else ""
    columns = ["row", "published", *(f"ours, {rule} selection" for rule in rules), "runs"]
    columns += [against] * (against != "") + ["gap published", "gap ours"] * (table.reference != "")
    rows = []
    for cell in cells:
        result = results.get(cell)
        row: list[object] = [cell.row.label, f"{cell.published:.1f}"]
        row += [result.text(rule) if result else "–" for rule in rules]
        row.append(f"{len(result.seeds) if result else 0}/{wanted}")
        if against:
            base = results.get(baseline) if baseline else None
            row.append(interval(difference(result, base, main)) if result and base else "–")
        if table.reference:
            row += [_gap(table, cells, cell, None, main), _gap(table, cells, cell, results, main)]
        rows.append(row)
    console.table(columns, rows, right=columns[1:])
    for remark in remarks(table, cells, results, main, drawn_anew):
        print(remark)


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
        if one is None or (results is not None and found is None):
            return "–"
        values.append(one.published if results is None else found.mean if found else math.nan)
    share = share_of_gap(*values)
    return "–" if share is None else f"{100 * share:.0f} %"


def remarks(table: Table, cells: Sequence[Cell], results: Results, rule: str, drawn_anew: bool) -> Iterator[str]:
    here = [(cell, results[cell]) for cell in cells if cell in results and results[cell].summary(rule)]
    if not here:
        yield "no finished run"
        return
    counts = Counter(text for _, result in here for text in result.departures)
    if counts:
        yield "Ours is not the published experiment, so compare orders, not numbers:"
    for text, number in counts.items():
        yield f"  {text}" + ("" if number == len(here) else f" ({number} of {len(here)} rows)")
    if len(here) > 1:
        means = [found.mean for _, result in here if (found := result.summary(rule))]
        agree, of = pairs_in_order([cell.published for cell, _ in here], means)
        yield f"{agree} of {of} pairs of rows stand in the published order"
    drawn = "hidden labels drawn anew with each seed" if drawn_anew else "training seeds only, the same hidden labels"
    yield f"± is the standard deviation over runs ({drawn}); differences are paired by seed"
    for oracle in dict.fromkeys(text for _, result in here for text in result.oracles):
        yield f"oracle: {oracle}"
    yield table.note
