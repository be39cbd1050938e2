"""Reads the fields of a key or value that a coordinator has stored in its topic.

Used by the records of `groups` and `transactions`. `StoredFields` has what all formats share;
`FlexibleFields` adds the compact lengths and tagged fields of Kafka's flexible versions.
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


class FlexibleFields(StoredFields):
    """The fields of a flexible version. The length of a string or array is stored plus one; 0 is null."""

    __slots__ = ()

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise UnreadableRecord(f"invalid number before {self._at}")

    def count(self) -> int:
        """Read the length of an array that is not null."""
        count = self.varint() - 1
        if count < 0:
            raise UnreadableRecord(f"unexpected null array before {self._at}")
        return count

    def nullable_string(self) -> str | None:
        size = self.varint() - 1
        return None if size < 0 else self.text(size)

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise UnreadableRecord(f"unexpected null string before {self._at}")
        return value

    def tagged(self) -> dict[int, bytes]:
        """Read the tagged fields by their tag."""
        found = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            found[tag] = self.take(size)
        return found

    def skip_tagged(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def varint(value: int) -> bytes:
    """Encode an unsigned number as flexible versions do."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
