"""The Prometheus text format, version 0.0.4. Called by the `/metrics` endpoint."""

import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from broker.metrics.families import FamilySamples

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


_NOT_IN_A_NAME = re.compile("[^a-zA-Z0-9_]")


SAMPLES_AT_ONCE: Final = 8
LINES_AT_ONCE: Final = 256


def render(families: Iterable[FamilySamples | None]) -> bytes:
    """Return the whole page."""
    return b"".join(pieces(families))


def pieces(families: Iterable[FamilySamples | None]) -> Iterator[bytes]:
    """Yield the page in steps of some microseconds of work.

    Families of one name are merged, because the format allows a name only once; until then the pieces are
    empty.
    """
    pages: dict[str, list[str]] = {}
    for family in families:
        yield b""
        if family is None:
            continue
        lines = pages.get(family.name)
        if lines is None:
            lines = pages[family.name] = [
                f"# HELP {family.name} {_escape_help(family.help)}",
                f"# TYPE {family.name} {family.kind.value}",
            ]
        for number, sample in enumerate(family.samples):
            if number % SAMPLES_AT_ONCE == 0:
                yield b""
            labels = ",".join(f'{name}="{_escape_label(value)}"' for name, value in sample.labels)
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{sample.suffix}{braces} {_number(sample.value)}")
    for lines in pages.values():
        for first in range(0, len(lines), LINES_AT_ONCE):
            text = "\n".join((*lines[first : first + LINES_AT_ONCE], ""))
            yield text.encode("utf-8", "backslashreplace")


def label_name(text: str) -> str:
    """Return `text` as a label name: invalid characters become "_"."""
    name = _NOT_IN_A_NAME.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(value)
