"""Lays out the screen of `weir top` as lines of styled text. Pure.

Used by the loop for a terminal and by the command for plain text. No line is longer than the width and
there are no more lines than the height, however small the terminal is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from broker.commands.plain import cell, shown
from broker.commands.top.columns import fit, heading, line
from broker.commands.top.picture import Picture, Totals
from broker.commands.top.tables import HELD, TABLES
from broker.commands.top.units import digits, share, size
from broker.commands.top.view import View

HEALTHY: Final = 0.6
URGENT: Final = 0.2
KEYS: Final = "q quit  Tab table  < > sort  r reverse  / filter  Space pause  Up Down scroll"
FRAME: Final = 2
"""Lines of a table besides its rows."""


class Style(Enum):
    PLAIN = "plain"
    BOLD = "bold"
    DIM = "dim"
    MARKED = "marked"
    WATCH = "watch"
    URGENT = "urgent"


Span = tuple[str, Style]
Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Screen:
    """The lines, and for each table the last row that it can be scrolled to."""

    lines: list[Line]
    lasts: tuple[int, ...]


def text_of(line_: Line) -> str:
    return "".join(text for text, _ in line_)


def draw(picture: Picture, view: View, width: int, height: int, trouble: str | None = None) -> Screen:
    """Return the whole screen. `trouble` is the reason why the metrics are stale."""
    head = _head(picture, view, width, trouble)
    tables, lasts = _tables(picture, view, width, max(0, height - len(head) - 1))
    body = [*head, *tables][: max(0, height - 1)]
    blank: list[Line] = [()] * (height - 1 - len(body))
    return Screen([*body, *blank, _foot(view, width)][:height], lasts)


def all_of(picture: Picture, view: View, width: int, most: int) -> list[Line]:
    """Return every table with `most` rows of it, for output without a height."""
    lines = _head(picture, view, width, None)
    for index in range(len(TABLES)):
        rows = _rows(picture, view, index)
        lines += [*_table(picture, view, index, rows[:most], len(rows), width), ()]
    return lines


def _head(picture: Picture, view: View, width: int, trouble: str | None) -> list[Line]:
    totals = picture.totals
    state = f"{totals.at[11:19]} UTC" + ("  paused" if view.paused else "")
    name = f"weir {totals.version}  {totals.bootstrap}"
    first: Line = ((cell(name, max(0, width - len(state) - 2)), Style.BOLD),)
    if width > len(state) + 2:
        first = (*first, ("  ", Style.PLAIN), (state, Style.MARKED if view.paused else Style.PLAIN))
    lines = [
        first,
        _cut(_rates(totals, picture.held_total), width),
        _cut(_idle(totals), width),
    ]
    if trouble is not None:
        lines.append(((cell(f"STALE: {trouble}", width), Style.URGENT),))
    return [*lines, ()]


def _rates(totals: Totals, held: int) -> Line:
    return (
        (f"In {size(totals.bytes_in)}/s   Out {size(totals.bytes_out)}/s   ", Style.PLAIN),
        (f"Requests {digits(totals.requests)}/s   Connections {totals.connections:,}   ", Style.PLAIN),
        (f"Throttled {held:,}", Style.WATCH if held else Style.PLAIN),
    )


def _idle(totals: Totals) -> Line:
    return (
        ("Idle: network ", Style.PLAIN),
        (share(totals.network_idle), _health(totals.network_idle)),
        ("   handlers ", Style.PLAIN),
        (share(totals.handler_idle), _health(totals.handler_idle)),
        ("   acceptor blocked ", Style.PLAIN),
        (
            share(totals.acceptor_blocked),
            _health(None if totals.acceptor_blocked is None else 1 - totals.acceptor_blocked),
        ),
    )


def _health(idle: float | None) -> Style:
    if idle is None or idle >= HEALTHY:
        return Style.PLAIN
    return Style.WATCH if idle >= URGENT else Style.URGENT


def _cut(line_: Line, width: int) -> Line:
    spans: list[Span] = []
    for text, style in line_:
        available = width - sum(len(before) for before, _ in spans)
        spans.append((text if len(text) <= available else cell(text, available), style))
    return tuple(span for span in spans if span[0])


def _rows(picture: Picture, view: View, index: int) -> list[Any]:
    by = view.sorted_by(index)
    return TABLES[index].found(picture, view.filter, by, ascending=view.ascending(index))


def _tables(picture: Picture, view: View, width: int, available: int) -> tuple[list[Line], tuple[int, ...]]:
    found = [_rows(picture, view, index) for index in range(len(TABLES))]
    config = share_out(available, [max(1, len(rows)) for rows in found], view.focus)
    lines: list[Line] = []
    lasts = [0] * len(TABLES)
    for index, (rows, space) in enumerate(zip(found, config, strict=True)):
        if not space:
            continue
        lasts[index] = max(0, len(rows) - space)
        top = min(view.tops[index], lasts[index])
        table = _table(picture, view, index, rows[top : top + space], len(rows), width)
        lines += [(), *table] if lines else table
    return lines, tuple(lasts)


def share_out(available: int, wants: Sequence[int], focus: int) -> list[int]:
    """Return the number of rows of each table in `available` lines; `wants` is the number each table has.

    Tables share the lines evenly; lines that one does not need go to the others. With too few lines for a
    row of each, only the table `focus` is shown; the others get 0.
    """
    shown_ones = list(range(len(wants)))
    if available < len(wants) * (FRAME + 2) - 1:
        shown_ones = [focus]
    left = available - len(shown_ones) * (FRAME + 1) + 1
    given = [0] * len(wants)
    order = sorted(shown_ones, key=lambda index: index != focus)
    while left > 0 and any(given[index] < wants[index] for index in order):
        for index in order:
            if left > 0 and given[index] < wants[index]:
                given[index] += 1
                left -= 1
    return given


def _table(
    picture: Picture, view: View, index: int, rows: Sequence[Any], total: int, width: int
) -> list[Line]:
    table = TABLES[index]
    fitted = fit(table.columns, width)
    behind = picture.held_total if table is HELD and not view.filter else total
    count = f" ({len(rows):,} of {behind:,})" if len(rows) < behind else ""
    mark = " ^" if view.ascending(index) else " v"
    title = Style.MARKED if index == view.focus else Style.BOLD
    lines: list[Line] = [
        ((cell(f"{table.title}{count}", width).rstrip(), title),),
        ((heading(fitted, view.sorted_by(index), mark), Style.DIM),),
    ]
    if not rows:
        words = "No match." if view.filter else table.empty
        return [*lines, ((cell(words, width).rstrip(), Style.DIM),)]
    return [*lines, *(((line(fitted, row), Style.PLAIN),) for row in rows)]


def _foot(view: View, width: int) -> Line:
    if view.typing:
        return ((cell(f"/{shown(view.filter) if view.filter else ''}_", width).rstrip(), Style.MARKED),)
    if view.filter:
        return ((cell(f"/{shown(view.filter)}  (Esc: all)  {KEYS}", width).rstrip(), Style.DIM),)
    return ((cell(KEYS, width).rstrip(), Style.DIM),)
