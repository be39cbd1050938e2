"""The state that the keys of `weir top` change, and the effect of each key. Pure.

Used by the loop, which passes keys by name, and by the screen. A view is a value; `press` returns the next
one.
"""

from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from broker.tools.top.tables import TABLES, Column

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
