"""The screen of `weir top`: its state, which keys change, and its lines of styled text. Pure.

Used by the loop for a terminal and by the command for plain text. A view is a value; `press` returns the next
one. No line is longer than the width and there are no more lines than the height, however small the terminal
is.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace
from rich.text import Text

from broker.common.quantities import group
from broker.tools.escaping import escape
from broker.tools.top.snapshot import Overview, Snapshot
from broker.tools.top.tables import GAP, TABLES, THROTTLED, Column, digits, fit, share, size

MAX_FILTER: Final = 64
PAGE: Final = 10

Item = TypeVar("Item")


class View(msgspec.Struct, frozen=True):
    """The state of the screen. `focus` is the table that receives keys.

    For each table, `sorts` is the index of the sorted column among the sortable ones, `reversed` whether its
    direction is reversed, and `tops` the first visible row.
    """

    focus: int = 0
    sorts: tuple[int, ...] = (0,) * len(TABLES)
    reversed: tuple[bool, ...] = (False,) * len(TABLES)
    tops: tuple[int, ...] = (0,) * len(TABLES)
    filter: str = ""
    typing: bool = False
    paused: bool = False

    def sorted_by(self, table: int) -> Column[object]:
        return TABLES[table].sortable[self.sorts[table]]

    def ascending(self, table: int) -> bool:
        return self.sorted_by(table).ascending != self.reversed[table]

    def server_sort(self, table: int) -> dict[str, str]:
        """Return the query of GET /events for this order; empty if the client's order is enough."""
        name = TABLES[table].server_sorts.get(self.sorted_by(table).title)
        return {} if name is None else {"sort": name, "order": "asc" if self.ascending(table) else "desc"}


def press(view: View, key: str) -> View | None:
    """Return the view after `key`, a character or a key's name; None to quit. Unbound keys change nothing."""
    if view.typing:
        return _type(view, key)
    match key:
        case "q" | "Q":
            return None
        case "tab":
            return replace(view, focus=(view.focus + 1) % len(TABLES))
        case "backtab":
            return replace(view, focus=(view.focus - 1) % len(TABLES))
        case "left" | "<":
            return _sort(view, -1)
        case "right" | ">":
            return _sort(view, 1)
        case "r":
            return replace(view, reversed=_put(view.reversed, view.focus, not view.reversed[view.focus]))
        case "up" | "down" | "pageup" | "pagedown" | "home":
            return _scroll(view, key)
        case " " | "p":
            return replace(view, paused=not view.paused)
        case "/":
            return replace(view, typing=True)
        case "escape":
            return replace(view, filter="", tops=(0,) * len(TABLES))
    return view


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view, typing=False, filter="", tops=(0,) * len(TABLES))
        case "backspace":
            return replace(view, filter=view.filter[:-1], tops=(0,) * len(TABLES))
    if len(key) == 1 and key.isprintable() and len(view.filter) < MAX_FILTER:
        return replace(view, filter=view.filter + key, tops=(0,) * len(TABLES))
    return view


def _sort(view: View, step: int) -> View:
    at = (view.sorts[view.focus] + step) % len(TABLES[view.focus].sortable)
    return replace(
        view,
        sorts=_put(view.sorts, view.focus, at),
        reversed=_put(view.reversed, view.focus, False),
        tops=_put(view.tops, view.focus, 0),
    )


def _scroll(view: View, key: str) -> View:
    """Scroll without an upper bound: the screen stops at the last page, and `bounded` applies its limit."""
    step = {"up": -1, "down": 1, "pageup": -PAGE, "pagedown": PAGE, "home": -view.tops[view.focus]}[key]
    return replace(view, tops=_put(view.tops, view.focus, max(0, view.tops[view.focus] + step)))


def bounded(view: View, lasts: tuple[int, ...]) -> View:
    """Return the view with no table scrolled past `lasts`, so that the next `up` is visible at once."""
    return replace(view, tops=tuple(map(min, view.tops, lasts)))


def _put(items: tuple[Item, ...], at: int, item: Item) -> tuple[Item, ...]:
    return (*items[:at], item, *items[at + 1 :])


HEALTHY: Final = 0.6
URGENT: Final = 0.2
KEYS: Final = "q quit  Tab table  < > sort  r reverse  / filter  Space pause  Up Down scroll"
FRAME: Final = 2
"""Lines of a table besides its rows."""

COLOURS: Final = {"watch": "yellow", "urgent": "bold red"}
NO_COLOURS: Final = {"watch": "bold", "urgent": "bold reverse"}
"""The two styles that `draw` uses beside rich's own."""


class Screen(msgspec.Struct, frozen=True):
    """The lines, and for each table the last row that it can be scrolled to."""

    lines: list[Text]
    lasts: tuple[int, ...]


def draw(snapshot: Snapshot, view: View, width: int, height: int, trouble: str | None = None) -> Screen:
    """Return the whole screen. `trouble` is the reason why the metrics are stale."""
    head = _head(snapshot, view, width, trouble)
    tables, lasts = _tables(snapshot, view, width, max(0, height - len(head) - 1))
    body = [*head, *tables][: max(0, height - 1)]
    blank = [Text()] * (height - 1 - len(body))
    return Screen(_cut([*body, *blank, _foot(view)][:height], width), lasts)


def draw_all(snapshot: Snapshot, view: View, width: int, most: int) -> list[Text]:
    """Return every table with `most` rows of it, for output without a height."""
    lines = _head(snapshot, view, width, None)
    for index in range(len(TABLES)):
        rows = _rows(snapshot, view, index)
        lines += [*_table(snapshot, view, index, rows[:most], len(rows), width), Text()]
    return _cut(lines, width)


def _cut(lines: list[Text], width: int) -> list[Text]:
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def cell(text: str, width: int, column: Column[Any]) -> Text:
    """Return `text`, escaped, in exactly `width` columns."""
    made = Text(escape(text), overflow="ellipsis")
    made.align(column.align, width)
    return made


def _line(fitted: Sequence[tuple[Column[Any], int]], texts: Sequence[str], style: str = "") -> Text:
    cells = [cell(text, width, column) for text, (column, width) in zip(texts, fitted, strict=True)]
    return Text(" " * GAP, style=style).join(cells)


def _head(snapshot: Snapshot, view: View, width: int, trouble: str | None) -> list[Text]:
    overview = snapshot.overview
    state = f"{escape(overview.at[11:19])} UTC" + ("  paused" if view.paused else "")
    first = Text(escape(f"weir {overview.software_version}  {', '.join(overview.bootstrap)}"), "bold")
    if width > len(state) + GAP:
        first.truncate(width - len(state) - GAP, overflow="ellipsis", pad=True)
        first = Text.assemble(first, " " * GAP, (state, "bold reverse" if view.paused else ""))
    lines = [first, _rates(snapshot), _idle(overview)]
    if trouble is not None:
        lines.append(Text(escape(f"STALE: {trouble}"), "urgent"))
    return [*lines, Text()]


def _rates(snapshot: Snapshot) -> Text:
    overview, throttled = snapshot.overview, snapshot.throttled.total
    rates, all_gateways = overview.rates, overview.gateways
    prefix, connections = "", overview.metrics.connections
    if all_gateways is not None and all_gateways.gateways > 1:
        prefix, connections = f"{all_gateways.gateways} gateways: ", all_gateways.connections
    return Text.assemble(
        prefix,
        f"In {size(rates.bytes_in or 0)}/s   Out {size(rates.bytes_out or 0)}/s   ",
        f"Requests {digits(rates.requests or 0)}/s   ",
        f"Connections {group(connections)}   ",
        (f"Throttled {group(throttled)}", "watch" if throttled else ""),
    )


def _idle(overview: Overview) -> Text:
    averages = overview.metrics
    blocked = averages.acceptor_blocked
    return Text.assemble(
        "Idle: thread ",
        (share(averages.thread_idle), _health(averages.thread_idle)),
        "   network ",
        (share(averages.processor_idle), _health(averages.processor_idle)),
        "   handlers ",
        (share(averages.handler_idle), _health(averages.handler_idle)),
        "   acceptor blocked ",
        (share(blocked), _health(None if blocked is None else 1 - blocked)),
    )


def _health(idle: float | None) -> str:
    if idle is None or idle >= HEALTHY:
        return ""
    return "watch" if idle >= URGENT else "urgent"


def _rows(snapshot: Snapshot, view: View, index: int) -> list[Any]:
    by = view.sorted_by(index)
    return TABLES[index].matching(snapshot, view.filter, by, ascending=view.ascending(index))


def _tables(snapshot: Snapshot, view: View, width: int, available: int) -> tuple[list[Text], tuple[int, ...]]:
    matching = [_rows(snapshot, view, index) for index in range(len(TABLES))]
    shares = share_out(available, [max(1, len(rows)) for rows in matching], view.focus)
    lines: list[Text] = []
    lasts = [0] * len(TABLES)
    for index, (rows, space) in enumerate(zip(matching, shares, strict=True)):
        if not space:
            continue
        lasts[index] = max(0, len(rows) - space)
        top = min(view.tops[index], lasts[index])
        table = _table(snapshot, view, index, rows[top : top + space], len(rows), width)
        lines += [Text(), *table] if lines else table
    return lines, tuple(lasts)


def share_out(available: int, wants: Sequence[int], focus: int) -> list[int]:
    """Return the number of rows of each table in `available` lines; `wants` is the number each table has.

    Tables share the lines evenly; lines that one does not need go to the others. With too few lines for a
    row of each, only the table `focus` is shown; the others get 0.
    """
    visible = list(range(len(wants)))
    if available < len(wants) * (FRAME + 2) - 1:
        visible = [focus]
    left = available - len(visible) * (FRAME + 1) + 1
    given = [0] * len(wants)
    order = sorted(visible, key=lambda index: index != focus)
    while left > 0 and any(given[index] < wants[index] for index in order):
        for index in order:
            if left > 0 and given[index] < wants[index]:
                given[index] += 1
                left -= 1
    return given


def _table(
    snapshot: Snapshot, view: View, index: int, rows: Sequence[Any], total: int, width: int
) -> list[Text]:
    table = TABLES[index]
    fitted = fit(table.columns, width)
    behind = snapshot.throttled.total if table is THROTTLED and not view.filter else total
    count = f" ({group(len(rows))} of {group(behind)})" if len(rows) < behind else ""
    mark = " ^" if view.ascending(index) else " v"
    sorted_by = view.sorted_by(index)
    titles = [column.title + (mark if column is sorted_by else "") for column, _ in fitted]
    title = Text(table.title + count, "bold reverse" if index == view.focus else "bold")
    lines = [title, _line(fitted, titles, "dim")]
    if not rows:
        return [*lines, Text("No match." if view.filter else table.empty, "dim")]
    return [*lines, *(_line(fitted, [column.text(row) for column, _ in fitted]) for row in rows)]


def _foot(view: View) -> Text:
    if view.typing:
        return Text(f"/{escape(view.filter)}_", "bold reverse")
    if view.filter:
        return Text(f"/{escape(view.filter)}  (Esc: all)  {KEYS}", "dim")
    return Text(KEYS, "dim")
