"""Generates and compiles the function that encodes one message in one version.

Called by codec, once per message and version. The function packs a run of fixed-size fields and the length
that follows it in one `pack`, and joins the packed parts into one bytes object. A large `records` value, or
one that is not a buffer, becomes its own element of the resulting list, so that fetched data is not copied.
For large responses the same function is compiled as a generator, which yields None after a bounded number of
array elements, and returns the buffers. Independent of any specific message.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, Final

from broker.protocol.compile_decode import letters_of
from broker.protocol.emitter import NUMBERS, SLICE, Emitter, layout
from broker.protocol.schema import FIXED, LIST, Field, Message, Records, Struct, in_version
from broker.protocol.varint import uvarint

ResponseEncoder = Callable[[Any, int], list[Records]]
"""(message, correlation id) -> the whole frame, with size and header, as buffers to send in order."""

SlicedEncoder = Callable[[Any, int], Generator[None, None, list[Records]]]
"""An encoder as a generator. The message must not change until the generator ends."""

BodyEncoder = Callable[[Any], list[Records]]
"""message -> its body without header, as buffers in order."""

SlicedBodyEncoder = Callable[[Any], Generator[None, None, list[Records]]]
"""A body encoder as a generator. The message must not change until it ends."""

COPIED_RECORDS: Final = 4096
"""Up to this many bytes, copying a records buffer is cheaper than sending it separately."""

BUFFERS: Final = frozenset({bytes, bytearray, memoryview})
ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def compile_response_encoder(message: type[Message], version: int, header_version: int) -> ResponseEncoder:
    return _Encoder(message, version, header_version).build()  # type: ignore[no-any-return]


def compile_response_encoder_in_slices(
    message: type[Message], version: int, header_version: int
) -> SlicedEncoder:
    return _Encoder(message, version, header_version, in_slices=True).build()  # type: ignore[no-any-return]


def compile_body_encoder(message: type[Message], version: int) -> BodyEncoder:
    return _Encoder(message, version, None).build()  # type: ignore[no-any-return]


def compile_body_encoder_in_slices(message: type[Message], version: int) -> SlicedBodyEncoder:
    return _Encoder(message, version, None, in_slices=True).build()  # type: ignore[no-any-return]


class _Encoder(Emitter):
    def __init__(
        self, message: type[Message], version: int, header_version: int | None, in_slices: bool = False
    ) -> None:
        super().__init__(f"encode {message.__name__} v{version}", in_slices)
        self.version = version
        self.flexible = message.FLEXIBLE is not None and version >= message.FLEXIBLE
        self._run: list[tuple[str, str]] = []
        self._write = "w"
        self.names.update(pack_any=struct.pack, uvarint=uvarint, ONE_BYTE=ONE_BYTE, BUFFERS=BUFFERS)
        with self.block("def run(m0):" if header_version is None else "def run(m0, correlation_id):"):
            self.emit("parts = []")
            self.emit("w = parts.append")
            large = in_slices or self._has_records(message)
            if large:
                self.emit("out = []")
                self.emit("size = 0")
            if in_slices:
                self.emit(f"left = {SLICE}")
            self._struct(message, "m0", 0)
            self._flush()
            if in_slices:
                with self.block("if False:"):
                    self.emit("yield")  # makes it a generator even without array fields
            self._finish(header_version, large)

    def _has_records(self, struct_type: type[Struct]) -> bool:
        return any(
            field.type == "records" if isinstance(field.type, str) else self._has_records(field.type)
            for field in in_version(struct_type, self.version)
        )

    def _finish(self, header_version: int | None, large: bool) -> None:
        self.emit("body = b''.join(parts)")
        if header_version is None:
            self.emit("return [*out, body] if out and body else out or [body]" if large else "return [body]")
            return
        length = 5 if header_version else 4
        head = self.constant("head", layout("iix" if header_version else "ii")[2])
        if large:
            with self.block("if out:"):
                self.emit(f"out[0] = {head}(size + len(body) + {length}, correlation_id) + out[0]")
                with self.block("if body:"):
                    self.emit("out.append(body)")
                self.emit("return out")
        self.emit(f"return [{head}(len(body) + {length}, correlation_id) + body]")

    def _yield_if_due(self) -> None:
        """End the slice if one more element exceeds its limit. `_run` must be empty."""
        self.emit("left -= 1")
        with self.block("if left < 0:"):
            self._yield_chunk()
            self.emit(f"left = {SLICE}")

    def _yield_chunk(self) -> None:
        """Emit code that joins the parts written so far and yields, so that the final join stays small."""
        self.emit("chunk = b''.join(parts)")
        self.emit("parts.clear()")
        self.emit("out.append(chunk)")
        self.emit("size += len(chunk)")
        self.emit("yield")

    # Fixed-size fields wait in `_run` until a field of variable size is written; `x` is a zero byte.

    def _fixed(self, letter: str, value: str = "") -> None:
        self._run.append((letter, value))

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        if not values:
            self.emit(f"{self._write}({bytes(len(letters))!r})")
        elif letters == "B":
            self.emit(f"{self._write}(ONE_BYTE[{values}])")
        else:
            self.emit(f"{self._write}({self.constant('pack', layout(letters)[2])}({values}))")
        self._run = []

    def _length(self, letter: str) -> None:
        """Write the fields in `_run` and the length `n`, compact or as `letter`."""
        if not self.flexible:
            self._fixed(letter, "n")
            self._flush()
            return
        waiting = list(self._run)
        with self.block("if n < 128:"):
            self._fixed("B", "n")
            self._flush()
        self._run = waiting
        with self.block("else:"):
            self._flush()
            self.emit(f"{self._write}(uvarint(n))")

    def _struct(self, struct_type: type[Struct], name: str, depth: int) -> None:
        present = in_version(struct_type, self.version)
        for field in present:
            if field.tag is None:
                self._field(field, f"{name}.{field.name}", depth)
        if not self.flexible:
            return
        tagged = sorted((field.tag, field) for field in present if field.tag is not None)
        if tagged:
            self._tags([field for _, field in tagged], name, depth)
        else:
            self._fixed("x")

    def _tags(self, tagged: list[Field], name: str, depth: int) -> None:
        """Write the tagged fields that differ from their default; usually only a count of zero."""
        waiting, write = self._run, self._write
        tags = f"tags{depth}"
        self.emit(f"{tags} = ()")
        conditions = [self._differs(field, f"{name}.{field.name}") for field in tagged]
        with self.block(f"if {' or '.join(conditions)}:"):
            self.emit(f"{tags} = []")
            for field, condition in zip(tagged, conditions, strict=True):
                with self.block(f"if {condition}:"):
                    self._run, self._write = [], f"w{depth}"
                    self.emit(f"parts{depth} = []")
                    self.emit(f"w{depth} = parts{depth}.append")
                    self._field(
                        field._replace(nullable=self._nullable_in_tag(field)), f"{name}.{field.name}", depth
                    )
                    self._flush()
                    self.emit(f"value = b''.join(parts{depth})")
                    self.emit(f"{tags}.append({uvarint(field.tag or 0)!r} + uvarint(len(value)) + value)")
        self._run, self._write = waiting, write
        self._fixed("B", f"len({tags})")
        self._flush()
        with self.block(f"if {tags}:"):
            self.emit(f"{write}(b''.join({tags}))")

    def _nullable_in_tag(self, field: Field) -> int | None:
        return field.nullable if isinstance(field.type, str) else None

    def _differs(self, field: Field, value: str) -> str:
        """Return the condition under which a tagged field is sent."""
        if field.initial is LIST:
            return value
        if isinstance(field.type, str) or field.nullable is not None:
            return f"{value} is not None" if field.initial is None else f"{value} != {field.initial!r}"
        default = self.constant("default", field.type())
        return f"({value} is not None and {value} != {default})"

    def _field(self, field: Field, value: str, depth: int) -> None:
        nullable = field.nullable is not None and self.version >= field.nullable
        if field.array:
            self._array(field, value, nullable, depth)
        elif not isinstance(field.type, str):
            self._nested(field.type, value, nullable, depth)
        elif field.type in FIXED:
            self._fixed(FIXED[field.type], value)
        else:
            self._blob(field.type, value, nullable)

    def _nested(self, struct_type: type[Struct], value: str, nullable: bool, depth: int) -> None:
        name = f"m{depth + 1}"
        if not nullable:
            self.emit(f"{name} = {value}")
            self._struct(struct_type, name, depth + 1)
            return
        self._flush()
        self.emit(f"{name} = {value}")
        with self.block(f"if {name} is None:"):
            self.emit(f"{self._write}(b'\\xff')")
        with self.block("else:"):
            self._fixed("b", "1")
            self._struct(struct_type, name, depth + 1)
            self._flush()

    def _blob(self, kind: str, value: str, nullable: bool) -> None:
        encoded = "data.encode()" if kind == "string" else "data"
        extra = " + 1" if self.flexible else ""
        if nullable:
            self.emit(f"data = {value}")
            with self.block("if data is None:"):
                self.emit("data = b''")
                self.emit("n = 0" if self.flexible else "n = -1")
            with self.block("else:"):
                if kind == "string":
                    self.emit(f"data = {encoded}")
                self.emit(f"n = len(data){extra}")
        else:
            self.emit(f"data = {value}.encode()" if kind == "string" else f"data = {value}")
            self.emit(f"n = len(data){extra}")
        self._length("h" if kind == "string" else "i")
        if kind != "records":
            self.emit(f"{self._write}(data)")
            return
        empty = 1 if self.flexible else 0
        with self.block(f"if n > {COPIED_RECORDS + empty} or (n > {empty} and type(data) not in BUFFERS):"):
            self.emit("chunk = b''.join(parts)")
            self.emit("parts.clear()")
            self.emit("out += (chunk, data)")
            self.emit(f"size += len(chunk) + n{' - 1' if self.flexible else ''}")
        with self.block(f"elif n > {empty}:"):
            self.emit("w(data)")

    def _array(self, field: Field, value: str, nullable: bool, depth: int) -> None:
        items = f"items{depth}"
        count = f"n = len({items}){' + 1' if self.flexible else ''}"
        self.emit(f"{items} = {value}")
        if nullable:
            with self.block(f"if {items} is None:"):
                self.emit(f"{items} = ()")
                self.emit("n = 0" if self.flexible else "n = -1")
            with self.block("else:"):
                self.emit(count)
        else:
            self.emit(count)
        self._length("i")
        if isinstance(field.type, str) and field.type in FIXED:
            letter = FIXED[field.type]
            if self.in_slices:
                self._numbers_in_slices(items, letter)
                return
            self.emit(f"{self._write}(pack_any({letters_of(letter, f'len({items})')}, *{items}))")
            return
        with self.block(f"for m{depth + 1} in {items}:"):
            if self.in_slices:
                self._yield_if_due()
            if isinstance(field.type, str):
                self._blob(field.type, f"m{depth + 1}", nullable=False)
            else:
                self._struct(field.type, f"m{depth + 1}", depth + 1)
            self._flush()

    def _numbers_in_slices(self, items: str, letter: str) -> None:
        """Emit code for fixed-size values, written in slices."""
        with self.block(f"for at in range(0, len({items}), {NUMBERS}):"):
            with self.block("if at:"):
                self._yield_chunk()
            self.emit(f"some = {items}[at : at + {NUMBERS}]")
            self.emit(f"{self._write}(pack_any({letters_of(letter, 'len(some)')}, *some))")
