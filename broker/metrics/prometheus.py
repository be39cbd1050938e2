"""The Prometheus text format, version 0.0.4. Called by the `/metrics` endpoint with what the registry
collected.
"""

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
    """The whole page."""
    return b"".join(pieces(families))


def pieces(families: Iterable[FamilySamples | None]) -> Iterator[bytes]:
    """The page, some microseconds of work at a time: nothing at first, since families of one name are put
    together, as the format allows a name only once.
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
    """`text` as the name of a label: what the format does not allow in one becomes "_"."""
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
