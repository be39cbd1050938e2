"""What strangers call themselves, fit for a terminal: nothing of it is obeyed, and its width is known.

Used by the commands that print names. A client chooses its id, and may put into it what moves a cursor, turns
the direction of writing, or takes no or two columns; such characters are shown as escapes. What is left takes
one column, or two where it is an ideograph.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

CUT: Final = "~"

_WIDE: Final = ("W", "F")
_LEFT_TO_RIGHT: Final = ("L", "EN", "ES", "ET", "CS", "ON", "WS", "AN")


def shown(name: str) -> str:
    """On one line, and seen even if it is empty."""
    return "".join(_pieces(name)) or '""'


def in_words(entity: Mapping[str, str | None]) -> str:
    """user alice, default client-id"""
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {shown(name)}" for kind, name in entity.items()
    )


def width(text: str) -> int:
    """Columns of what `shown` made."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cell(text: str, room: int, *, right: bool = False) -> str:
    """`text` in exactly `room` columns; `CUT` at its end says that there is more of it. However long it is,
    no more of it is looked at than can be shown.
    """
    parts: list[str] = []
    used = 0
    for piece in _pieces(text[: room + 1]):
        used += width(piece)
        parts.append(piece)
        if used > room:
            break
    if used > room:
        while parts and used > room - len(CUT):
            used -= width(parts.pop())
        parts.append(CUT[:room])
        used += len(CUT[:room])
    blank = " " * (room - used)
    return blank + "".join(parts) if right else "".join(parts) + blank


def _pieces(text: str) -> Iterator[str]:
    """One for each character, whole: half an escape would be another."""
    for each in text:
        yield each if _is_harmless(each) else each.encode("unicode_escape").decode()


def _is_harmless(each: str) -> bool:
    if each.isascii():
        return each.isprintable()
    kind = unicodedata.category(each)
    if unicodedata.east_asian_width(each) in _WIDE:
        # Ideographs and kana are two columns everywhere; of symbols and emoji terminals think differently.
        return kind == "Lo"
    return kind[0] in "LNP" and kind != "Lm" and unicodedata.bidirectional(each) in _LEFT_TO_RIGHT


def _columns(each: str) -> int:
    return 2 if unicodedata.east_asian_width(each) in _WIDE else 1
