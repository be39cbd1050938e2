"""Reads the fields of a key or value that a coordinator has stored in its topic.

Used by `groups.records` and `transactions.records`, whose readers add the fields of their formats.
"""

from struct import Struct, error


class UnreadableRecord(ValueError):  # noqa: N818 - a fact about the log
    """A truncated key or value, or an unknown version or state."""


class StoredFields:
    """A position in a key or value. Checks the remaining length before every read.

    Each method raises UnreadableRecord.
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise UnreadableRecord(
                f"invalid length {size} at {self._at}: the record has {len(self._data)} bytes"
            )
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def integer(self, form: Struct) -> int:
        try:
            return int(form.unpack(self.take(form.size))[0])
        except error as bad:
            raise UnreadableRecord(str(bad)) from bad

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as bad:
            raise UnreadableRecord(f"invalid string before {self._at}: expected UTF-8") from bad
