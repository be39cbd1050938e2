"""The building blocks of messages: slotted structs, and a table of the fields with their versions.

The derived modules in `messages/` consist of these; compile_decode and compile_encode read them. Wire types
are names here, without any encoding.

A struct has the union of its fields over all versions. A field that a version lacks has its default after
decoding and is omitted when encoding, whatever its value (Kafka's "ignorable").
"""

from collections.abc import Sized
from typing import ClassVar, Final, NamedTuple

Buffer = bytes | bytearray | memoryview
"""The input of a decoder, and the value of a `bytes` field (a memoryview into the frame after decoding)."""

Records = Buffer | Sized
"""The value of a `records` field: a buffer, or any sized object that the transport can send."""

ZERO_UUID: Final = bytes(16)

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The fixed-size wire types, with their letters in the struct module."""

Initial = int | float | str | bytes | tuple[()] | None
LIST: Final[tuple[()]] = ()
ZEROS: Final[dict[str, Initial]] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), 0),
    **dict.fromkeys(("bytes", "records"), b""),
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
}


class Field(NamedTuple):
    """A field of a struct.

    `type` is a name in FIXED, `string`, `bytes`, `records`, or the class of a nested struct. The field exists
    in versions `since` to `until`, both included, and may be null from version `nullable`. A field with a
    `tag` is in the struct's tagged section (KIP-482), and is sent only if it differs from its default; a
    tagged struct of None has its default. `default` is None if the type's own default applies (see
    `initial`).
    """

    name: str
    type: "str | type[Struct]"
    since: int
    until: int
    array: bool = False
    nullable: int | None = None
    tag: int | None = None
    default: int | float | str | bytes | None = None

    @property
    def initial(self) -> "Initial":
        """The attribute's default value; LIST for a fresh list."""
        if self.default is not None or self.nullable is not None:
            return self.default
        if self.array:
            return LIST
        return ZEROS[self.type] if isinstance(self.type, str) else None


class Struct:
    """Base of every derived class. Structs are equal if class and fields are equal; mutable, so no hash."""

    __slots__ = ()

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


def in_version(struct_type: type[Struct], version: int) -> list[Field]:
    """Return the fields that exist in `version`, in wire order, including tagged fields."""
    return [field for field in struct_type.FIELDS if field.since <= version <= field.until]


class Message(Struct):
    """A top-level struct: a request, a response, or a `data` schema (API_KEY None).

    VERSIONS are the first and last version of the schema source. From FLEXIBLE, lengths are compact and every
    struct ends in a tagged section (KIP-482); None if no version is flexible.
    """

    __slots__ = ()

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int | None] = None
