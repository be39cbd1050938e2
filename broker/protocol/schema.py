"""The building blocks of messages: structs that declare their fields, with wire types and versions.

The derived modules in `messages/` consist of these; compile_decode and compile_encode read them. Wire types
are names here, without any encoding. One line declares a field of a struct:

    leader_epoch: int = field("int32", 10, 13, default=-1)

It becomes a slot, an argument of the constructor, and an entry of the class's FIELDS.

A struct has the union of its fields over all versions. A field that a version lacks has its default after
decoding and is omitted when encoding, whatever its value (Kafka's "ignorable").
"""

from collections.abc import Callable, Sized
from typing import Any, ClassVar, Final, NamedTuple, dataclass_transform

from broker.protocol.emitter import Emitter

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


def field(
    type: "str | type[Struct]",
    since: int,
    until: int,
    array: bool = False,
    nullable: int | None = None,
    tag: int | None = None,
    default: int | float | str | bytes | None = None,
) -> Any:
    """Declare a field in the body of a struct; the arguments are those of `Field`."""
    return _Declaration((type, since, until, array, nullable, tag, default))


class _Declaration(tuple[Any, ...]):
    """A `Field` without its name."""

    __slots__ = ()


@dataclass_transform()
class StructType(type):
    """Makes a slot and an entry of FIELDS from each declaration in the body of a struct.

    The constructor is compiled on its first call: to compile all of them would take longer than to import all
    messages.
    """

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **message: Any
    ) -> "StructType":
        made: Any
        declared = {key: value for key, value in body.items() if isinstance(value, _Declaration)}
        for key in declared:
            del body[key]  # the slot takes its place
        body.pop("__annotations__", None)  # only type checkers read them
        body["__slots__"] = (*body.get("__slots__", ()), *declared)
        if declared:
            body["FIELDS"] = tuple(Field(key, *value) for key, value in declared.items())
        body.setdefault(
            "__init__", lambda self, *values, **named: _construct_first(made, self, *values, **named)
        )
        made = super().__new__(cls, name, bases, body, **message)
        return made  # type: ignore[no-any-return]


class Struct(metaclass=StructType):
    """Base of every derived class. Structs are equal if class and fields are equal; mutable, so no hash.

    The constructor has an argument for each field, in the order of the declarations, by position or by name.
    """

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


def _construct_first(struct_type: Any, made: Struct, /, *values: object, **named: object) -> None:
    struct_type.__init__ = _compile_constructor(struct_type)
    struct_type.__init__(made, *values, **named)


def _compile_constructor(struct_type: type[Struct]) -> Callable[..., None]:
    """Return `__init__`, which replaces None by a fresh list or struct where the field cannot be None."""
    emitter = Emitter(f"create {struct_type.__name__}")
    parameters = [
        f"{field.name}={None if field.initial is LIST else repr(field.initial)}"
        for field in struct_type.FIELDS
    ]
    with emitter.block(f"def run({', '.join(['self', *parameters])}):"):
        emitter.emit("pass")
        for field in struct_type.FIELDS:
            fresh = ""
            if field.initial is LIST:
                fresh = "[]"
            elif not isinstance(field.type, str) and field.nullable is None and field.tag is None:
                fresh = f"{emitter.constant('Class', field.type)}()"
            value = f"{fresh} if {field.name} is None else {field.name}" if fresh else field.name
            emitter.emit(f"self.{field.name} = {value}")
    made: Callable[..., None] = emitter.build()
    made.__name__, made.__qualname__ = "__init__", f"{struct_type.__name__}.__init__"
    return made


def in_version(struct_type: type[Struct], version: int) -> list[Field]:
    """Return the fields that exist in `version`, in wire order, including tagged fields."""
    return [field for field in struct_type.FIELDS if field.since <= version <= field.until]


class Message(Struct):
    """A top-level struct: a request, a response, or a `data` schema (API_KEY None).

    VERSIONS are the first and last version of the schema source. From FLEXIBLE, lengths are compact and every
    struct ends in a tagged section (KIP-482); None if no version is flexible. A class statement gives them:

        class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible=4):
    """

    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int | None]

    def __init_subclass__(
        cls, versions: tuple[int, int], api_key: int | None = None, flexible: int | None = None
    ) -> None:
        cls.API_KEY, cls.VERSIONS, cls.FLEXIBLE = api_key, versions, flexible
