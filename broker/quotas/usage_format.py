"""The file of saved usage: a line with the version, the checksum, and what follows as MessagePack.

Written in a thread by `server.parts.quota_usage`. A file that is damaged, too large or of a newer version is
refused as a whole: debts are no reason not to start, and half of them would be arbitrary.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Final
from zlib import crc32

import msgspec

from broker.quotas.saved_usage import Saved, SavedUsage

VERSION: Final = 1
_NAME: Final = b"weir-quota-usage "
_HEAD: Final = _NAME + b"%d\n" % VERSION
_CRC_BYTES: Final = 4

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of the whole file, which is written every second: 12,000 entities with eleven windows each, or 50,000 that
owe something. Clients choose their ids, and could fill it with them: limits of users, addresses and listeners
come first, and among them those that were used most.
"""

SORTED_AT_ONCE: Final = 1_000
"""Sorting more in one piece would hold the interpreter for milliseconds."""


class UsageFileError(Exception):
    """The file cannot be used; the message says why."""


def encode(saved: Saved, most_bytes: int = MAX_BYTES) -> bytes:
    """Return the file, with as many entities as fit into `most_bytes`."""
    encoder = msgspec.msgpack.Encoder()
    facts = (saved.now_ms, saved.wall_ms, saved.window, saved.mutation_window)
    before = b"\x95" + b"".join(map(encoder.encode, facts))
    left = most_bytes - len(_HEAD) - _CRC_BYTES - len(before) - 5
    written: list[bytes] = []
    for entry in _in_order(saved.entries):
        try:
            data = encoder.encode(entry)
        except UnicodeEncodeError:
            continue  # one name that is no text must not keep all others out
        left -= len(data)
        if left < 0:
            break
        written.append(data)
    body = b"".join([before, b"\xdd", len(written).to_bytes(4, "big"), *written])
    return b"".join([_HEAD, crc32(body).to_bytes(_CRC_BYTES, "big"), body])


def decode(data: bytes) -> Saved:
    """Return what `encode` was given. Raises UsageFileError."""
    if len(data) > MAX_BYTES:
        raise UsageFileError(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    line, newline, rest = data[: len(_HEAD) + 8].partition(b"\n")
    version = line.removeprefix(_NAME)
    if not newline or not line.startswith(_NAME) or not version.isdigit():
        raise UsageFileError("it is damaged: no version")
    if int(version) != VERSION:
        raise UsageFileError(f"its version is {int(version)}, not {VERSION}")
    body = data[len(_HEAD) + _CRC_BYTES :]
    if crc32(body).to_bytes(_CRC_BYTES, "big") != rest[:_CRC_BYTES]:
        raise UsageFileError("it is damaged: its checksum is another one")
    try:
        return msgspec.msgpack.decode(body, type=Saved)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageFileError(f"it is damaged: {error}") from None


def _in_order(entries: list[SavedUsage]) -> Iterator[SavedUsage]:
    """Return the entities in the order in which they are kept."""
    pieces = (entries[first : first + SORTED_AT_ONCE] for first in range(0, len(entries), SORTED_AT_ONCE))
    return merge(*(sorted(piece, key=_rank) for piece in pieces), key=_rank)


def _rank(entry: SavedUsage) -> tuple[bool, float]:
    return entry.client_id is not None, -entry.worth_s
