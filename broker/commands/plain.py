"""Names chosen by clients, made safe for a terminal and of known width.

Used by the commands that print names. A client chooses its id, which may contain characters that move the
cursor, change the writing direction, or take no or two columns; these are shown as escapes. Every remaining
character takes one column, an ideograph two.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

CUT: Final = "~"

_WIDE: Final = ("W", "F")
_LEFT_TO_RIGHT: Final = ("L", "EN", "ES", "ET", "CS", "ON", "WS", "AN")


def shown(name: str) -> str:
    """Return `name` on one line; an empty name as `""`."""
    return "".join(_pieces(name)) or '""'


def in_words(entity: Mapping[str, str | None]) -> str:
    """Return an entity in words: user alice, default client-id."""
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {shown(name)}" for kind, name in entity.items()
    )


def width(text: str) -> int:
    """Return the number of columns of a result of `shown`."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cell(text: str, columns: int, *, right: bool = False) -> str:
    """Return `text` in exactly `columns` columns, with `CUT` at its end if it is longer.

    Reads no more of a long text than fits.
    """
    parts: list[str] = []
    used = 0
    for piece in _pieces(text[: columns + 1]):
        used += width(piece)
        parts.append(piece)
        if used > columns:
            break
    if used > columns:
        while parts and used > columns - len(CUT):
            used -= width(parts.pop())
        parts.append(CUT[:columns])
        used += len(CUT[:columns])
    blank = " " * (columns - used)
    return blank + "".join(parts) if right else "".join(parts) + blank


def _pieces(text: str) -> Iterator[str]:
    """Yield each character, escaped if needed. Cutting inside an escape would change its meaning."""
    for each in text:
        yield each if _is_harmless(each) else each.encode("unicode_escape").decode()


def _is_harmless(each: str) -> bool:
    if each.isascii():
        return each.isprintable()
    kind = unicodedata.category(each)
    if unicodedata.east_asian_width(each) in _WIDE:
        # Ideographs and kana take two columns in every terminal; terminals differ on symbols and emoji.
        return kind == "Lo"
    return kind[0] in "LNP" and kind != "Lm" and unicodedata.bidirectional(each) in _LEFT_TO_RIGHT


def _columns(each: str) -> int:
    return 2 if unicodedata.east_asian_width(each) in _WIDE else 1
