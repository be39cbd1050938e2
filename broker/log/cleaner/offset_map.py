"""The last offset of each key, in a bounded buffer: 24 bytes a slot, whatever the length of the keys (Kafka's
SkimpyOffsetMap).

Filled and read by `cleaning`. Holds a hash of 16 bytes in place of the key. Kafka uses MD5; a client that
knows two keys of one MD5 could make the cleaner remove another's record, so this is BLAKE2b.
"""

import mmap
from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
_HASH_BYTES: Final = 16
_EMPTY: Final = bytes(_HASH_BYTES)

_WINDOWS: Final = _HASH_BYTES - 4 + 1
"""Slots that a hash names itself; the search then goes on slot by slot."""

NONE: Final = -1


class OffsetMap:
    """A hash table with open addressing. `end_offset`: all records before it are in the map.

    Takes `slots` times SLOT_BYTES of memory, but pages that were never written take none.
    """

    def __init__(self, slots: int, load_factor: float) -> None:
        """`load_factor`: the share of the slots that may be used. Raises ValueError if that is less than
        one.
        """
        self._slots = slots
        self._most = min(int(slots * load_factor), slots - 1)  # a search ends at an empty slot
        if self._most < 1:
            raise ValueError("the offset map cannot hold one key")
        self._buffer = mmap.mmap(-1, slots * SLOT_BYTES)
        self._used = 0
        self.end_offset = 0

    def __len__(self) -> int:
        return self._used

    @property
    def utilization(self) -> float:
        """The share of the slots that are used."""
        return self._used / self._slots

    def put(self, key: bytes | memoryview, offset: int) -> bool:
        """Set the offset of a key. Return False, without a change, if there is no room for another key."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        at = self._find(digest)
        if self._buffer[at : at + _HASH_BYTES] == _EMPTY:
            if self._used >= self._most:
                return False
            self._used += 1
        self._buffer[at : at + SLOT_BYTES] = digest + offset.to_bytes(8, "big")
        return True

    def get(self, key: bytes | memoryview) -> int:
        """Return the offset of a key, or NONE."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        buffer = self._buffer
        at = int.from_bytes(digest[:4], "big") % self._slots * SLOT_BYTES
        found = buffer[at : at + SLOT_BYTES]
        if found[:_HASH_BYTES] != digest:
            at = self._find(digest)
            found = buffer[at : at + SLOT_BYTES]
            if found[:_HASH_BYTES] == _EMPTY:
                return NONE
        return int.from_bytes(found[_HASH_BYTES:], "big")

    def _find(self, digest: bytes) -> int:
        """Return the position of the slot with this hash, or of the empty one where it belongs."""
        buffer, slots = self._buffer, self._slots
        at = 0
        for window in range(_WINDOWS):
            at = int.from_bytes(digest[window : window + 4], "big") % slots * SLOT_BYTES
            found = buffer[at : at + _HASH_BYTES]
            if found == digest or found == _EMPTY:  # noqa: SIM109 - a tuple would take longer
                return at
        size = slots * SLOT_BYTES
        while True:
            at += SLOT_BYTES
            if at == size:
                at = 0
            found = buffer[at : at + _HASH_BYTES]
            if found == digest or found == _EMPTY:  # noqa: SIM109 - a tuple would take longer
                return at
