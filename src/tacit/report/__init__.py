"""Run directories to pages and tables. Reads files only."""

from .compare import Comparison, Group, compare
from .page import render_html
from .read import SkippedRun, read_runs
from .records import ReportError, RunRecord
from .write import print_table, write_csv, write_markdown

__all__ = [
    "Comparison",
    "Group",
    "ReportError",
    "RunRecord",
    "SkippedRun",
    "compare",
    "print_table",
    "read_runs",
    "render_html",
    "write_csv",
    "write_markdown",
]
