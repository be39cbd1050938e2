"""Makes names that clients chose safe for a terminal.

Used by the commands that print names. A client chooses its id, which may contain characters that move the
cursor, change the writing direction, or take no or two columns; these are shown as escapes. Every remaining
character takes one column, an ideograph two.
"""

import unicodedata
from collections.abc import Mapping
from typing import Final

_WIDE: Final = ("W", "F")
_LEFT_TO_RIGHT: Final = ("L", "EN", "ES", "ET", "CS", "ON", "WS", "AN")


def escape(text: str) -> str:
    """Return `text` on one line, with escapes for the characters that could control the terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else each.encode("unicode_escape").decode() for each in text)


def printable(name: str) -> str:
    """Return `name` escaped; an empty name as `""`."""
    return escape(name) or '""'


def entity_text(entity: Mapping[str, str | None]) -> str:
    """Return an entity as text: user alice, default client-id."""
    return ", ".join(
        f"default {kind}" if name is None else f"{kind} {printable(name)}" for kind, name in entity.items()
    )


def _is_harmless(each: str) -> bool:
    if each.isascii():
        return each.isprintable()
    kind = unicodedata.category(each)
    if unicodedata.east_asian_width(each) in _WIDE:
        # Ideographs and kana take two columns in every terminal; terminals differ on symbols and emoji.
        return kind == "Lo"
    return kind[0] in "LNP" and kind != "Lm" and unicodedata.bidirectional(each) in _LEFT_TO_RIGHT
