"""Writes docs/protocol-support.md from the registry: `python -m broker.api.support`. A test compares the two.

The header of a handler's file says what the handler does and leaves out. The page collects these headers and
compares the served versions with those of Apache Kafka's brokers.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.api.registry import Api, Registry, load
from broker.common.version import KAFKA_VERSION
from broker.protocol.api_key import NAMES

PATH: Final = Path(__file__).parents[2] / "docs" / "protocol-support.md"

KAFKA: Final = {
    key: versions
    for versions, keys in {
        "0": (46, 47, 50, 51, 61, 64, 65, 71, 72, 75, 81, 83, 84, 86, 91, 92, 93, 94),
        "0-1": (17, 44, 45, 48, 49, 68, 69, 74, 80, 85, 87, 88, 89, 90),
        "0-2": (21, 33, 36, 43, 55, 57, 60, 66),
        "0-3": (37, 42),
        "0-4": (12, 25),
        "0-5": (13, 14, 16, 18, 22, 24, 26),
        "0-6": (10, 15, 28),
        "0-9": (11,),
        "0-13": (3,),
        "1": (76, 77),
        "1-2": (27, 34, 39, 40, 78, 79),
        "1-3": (29, 30, 31, 38, 41),
        "1-4": (32,),
        "1-5": (35,),
        "1-6": (20,),
        "1-10": (9,),
        "1-11": (2,),
        "2-4": (23,),
        "2-7": (19,),
        "2-10": (8,),
        "3-13": (0,),
        "4-18": (1,),
    }.items()
    for key in keys
}
"""The versions that a Kafka broker serves, by key."""


_HEAD: Final = f"""\
# Protocol support

Generated from the headers of `broker/api/a*.py` by `python -m broker.api.support`; do not edit it by hand.

ApiVersions announces exactly the served versions. A request in another version, or of another API, closes
its connection. The exception is ApiVersions: it answers UNSUPPORTED_VERSION in the format of
version 0, with its own range.

`make test-clients` sends more than 2,000 valid and invalid requests to Weir and to Kafka {KAFKA_VERSION},
in every version, and compares the answers but for the words of errors. `tests/endtoend/answers` lists the
requests, and says why where an answer differs on purpose.
"""

_TAIL: Final = """
## Unstable in Kafka

Kafka brokers serve version 6 of InitProducerId, which prepares transactions of two phases (KIP-939), only
with `unstable.api.versions.enable`, and Weir does not.
"""


def render(registry: Registry) -> str:
    served = {entry.key.value: entry for entry in registry}
    parts = [_HEAD, f"\n| key | API | served | Kafka {KAFKA_VERSION} |\n|---|---|---|---|\n"]
    parts.extend(_row(entry) for entry in served.values())
    parts.append("\n## What each API does, and what it leaves out\n")
    for entry in served.values():
        parts.append(f"\n### {NAMES[entry.key]} ({entry.key.value})\n\n{_prose(entry.doc)}\n")
    missing = list(_missing(served))
    if missing:
        parts.append("\n## Not served\n\nKafka brokers also serve:\n\n")
        parts.extend(f"- {NAMES[key]} ({key}): {versions}\n" for key, versions in missing)
    parts.append(_TAIL)
    return "".join(parts)


def _missing(served: dict[int, Api]) -> Iterator[tuple[int, str]]:
    return ((key, versions) for key, versions in sorted(KAFKA.items()) if key not in served)


def _row(entry: Api) -> str:
    versions = _range(entry.min_version, entry.max_version)
    if entry.advertised_min != entry.min_version:
        versions += f" (advertised from {entry.advertised_min})"
    return f"| {entry.key.value} | {NAMES[entry.key]} | {versions} | {KAFKA.get(entry.key, '-')} |\n"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _prose(doc: str) -> str:
    """Return a file's header as paragraphs without the API's name; "Left out:" starts its own paragraph."""
    _, _, text = doc.strip().partition(": ")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|\s(?=Left\s+out:)", text)]
    paragraphs[0] = paragraphs[0][0].upper() + paragraphs[0][1:]
    return "\n\n".join(paragraphs)


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(render(load()), encoding="utf-8")
