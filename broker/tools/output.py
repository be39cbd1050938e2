"""Rows as a table that fits the terminal, as JSON or as CSV, for the commands that list something.

Used by `weir quotas`, `weir topics`, `weir groups` and `weir clients`. Only a table is cut, and only at a
terminal or to the width in COLUMNS; no output has a control character that a name brought along.
"""

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import click
import msgspec
from rich.cells import cell_len, set_cell_size

from broker.common.quantities import group
from broker.tools.escaping import escape
from broker.tools.top.tables import size

GAP: Final = 2
LEAST: Final = 8
"""Cells of a column of texts, at least; a shorter name is shown whole."""

Row = Mapping[str, Any]


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Column(msgspec.Struct, frozen=True):
    """A column of a table and of CSV. `value` is what CSV has, `text` what a table has, None: the same.
    Numbers are on the right and never cut.
    """

    title: str
    value: Callable[[Row], Any]
    text: Callable[[Row], str] | None = None
    is_number: bool = False

    def cell(self, row: Row) -> str:
        return str(self.value(row)) if self.text is None else self.text(row)


def text_column(title: str, field: str) -> Column:
    """Return a column of names; an empty one is shown as "-"."""
    return Column(title, lambda row: row[field], lambda row: escape(row[field]) if row[field] else "-")


def count_column(title: str, field: str) -> Column:
    """Return a column of whole numbers; None is shown as "-"."""
    return Column(title, lambda row: row[field], lambda row: _known(row[field], group), is_number=True)


def size_column(title: str, field: str) -> Column:
    """Return a column of bytes, which the table has in three digits, as the console does."""
    return Column(title, lambda row: row[field], lambda row: _known(row[field], size), is_number=True)


def _known(value: int | None, text: Callable[[int], str]) -> str:
    return "-" if value is None else text(value)


def output_option(command: Any) -> Any:
    """Add --output: argument `output`."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice([each.value for each in Output]),
        default=Output.TABLE.value,
        show_default=True,
        callback=lambda _context, _option, name: Output(name),
        help="A table for people, or everything as JSON or CSV.",
    )(command)


def print_json(document: Any) -> None:
    """Print as ASCII, so that no terminal obeys a name."""
    click.echo(json.dumps(document, indent=2).replace("\x7f", "\\u007f"))


def print_rows(rows: Sequence[Row], columns: Sequence[Column], output: Output, empty: str = "") -> None:
    """Print rows; without any, a table is the sentence `empty`."""
    match output:
        case Output.JSON:
            print_json(rows)
        case Output.CSV:
            click.echo(_csv(rows, columns), nl=False)
        case Output.TABLE if not rows and empty:
            click.echo(empty)
        case Output.TABLE:
            for line in table(rows, columns, terminal_width()):
                click.echo(line)


def print_facts(facts: Mapping[str, str]) -> None:
    """Print one thing: a line for each of its facts."""
    widest = max(map(len, facts)) + 1
    for name, value in facts.items():
        click.echo(f"{name + ':':<{widest}} {value}")


def terminal_width() -> int | None:
    """Return the width that lines have to fit; None, any width, where no terminal reads them."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def table(rows: Sequence[Row], columns: Sequence[Column], width: int | None) -> list[str]:
    """Return the lines of a table. To fit the width, the longest texts are cut first, and columns on the
    right are left out when no text can be cut further.
    """
    cells = [[column.cell(row) for column in columns] for row in rows]
    widths = [
        max(cell_len(each) for each in (column.title, *(line[index] for line in cells)))
        for index, column in enumerate(columns)
    ]
    if width is not None:
        widths = _fitted(widths, columns, width)
    lines = [[column.title for column in columns], *cells]
    return [_line(line, widths, columns) for line in lines]


def _fitted(widths: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of the columns that fit, from the left; at least one."""
    least = [
        each if column.is_number else min(each, max(LEAST, len(column.title)))
        for each, column in zip(widths, columns, strict=True)
    ]
    shown = len(widths)
    while shown > 1 and sum(least[:shown]) + GAP * (shown - 1) > width:
        shown -= 1
    fitted = list(widths[:shown])
    excess = sum(fitted) + GAP * (shown - 1) - width
    while excess > 0:
        index = max(range(shown), key=lambda each: (fitted[each] - least[each], fitted[each]))
        if fitted[index] == least[index]:
            return [max(1, width)]
        fitted[index] -= 1
        excess -= 1
    return fitted


def _line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    shown = zip(cells, widths, columns, strict=False)
    return (" " * GAP).join(_cell(cell, width, column) for cell, width, column in shown).rstrip()


def _cell(text: str, width: int, column: Column) -> str:
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if column.is_number else text + " " * (width - length)


def _csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([column.title.lower().replace(" ", "_") for column in columns])
    for row in rows:
        writer.writerow([_plain(column.value(row)) for column in columns])
    return made.getvalue()


def _plain(value: Any) -> Any:
    """Return a value for CSV. A name keeps its characters except those that a terminal obeys."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return escape(value)
    return value
