"""What a message is: slotted structs, and a table that says which field exists in which version.

The derived modules in `messages/` are made of these; compile_decode and compile_encode read them.
Knows nothing of bytes: the wire types are names here.

A struct carries the union of its fields over all versions. A field that a version lacks has its default after
decoding and is left out when encoding, whatever it holds (Kafka's "ignorable").
"""

from collections.abc import Sized
from typing import ClassVar, Final, NamedTuple

Buffer = bytes | bytearray | memoryview
"""What a decoder accepts, and what a `bytes` field holds (a memoryview into the frame after decoding)."""

Records = Buffer | Sized
"""What a `records` field holds: a buffer, or anything with a length that the transport knows how to send."""

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
"""The wire types of fixed size, with the letter that the struct module has for them."""

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
    """One field of a struct.

    `type` is a name in FIXED, `string`, `bytes`, `records`, or the class of a nested struct. The field exists
    in versions `since` to `until`, both included, and may be null from version `nullable` on. With `tag` it
    travels in the struct's tagged section (KIP-482), and only when it differs from its default; a tagged
    struct that holds None has its default. `default` is None where it is the type's own (see `initial`).
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
        """What the attribute holds when nobody says otherwise; LIST for a fresh list."""
        if self.default is not None or self.nullable is not None:
            return self.default
        if self.array:
            return LIST
        return ZEROS[self.type] if isinstance(self.type, str) else None


class Struct:
    """Base of every derived class. Equal when of one class and equal field by field; mutable, so no hash."""

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


class Message(Struct):
    """A struct that travels alone: a request, a response, or a `data` schema (API_KEY None).

    VERSIONS are the first and last version that the schema source knows; from FLEXIBLE on lengths are compact
    and every struct ends in a tagged section (KIP-482), None when no version does.
    """

    __slots__ = ()

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int | None] = None
