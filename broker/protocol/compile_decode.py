"""Generates and compiles the function that decodes one message in one version.

Called by codec, once per message and version. The function is straight-line Python: one `unpack_from` reads a
run of fixed-size fields and the length that follows it, one-byte varints are read inline, and values are
stored directly in the slots. Every length is checked against the remaining bytes before anything is
allocated. For large messages the same function is compiled as a generator, which yields None after a bounded
number of array elements and bytes, and returns the message. Independent of any specific message.
"""

import struct
from collections.abc import Callable, Generator
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.protocol.emitter import NUMBERS, SLICE, Emitter, layout
from broker.protocol.schema import FIXED, LIST, Buffer, Field, Message, Struct, in_version
from broker.protocol.varint import read_rest, read_uvarint, skip_tags

Decoder = Callable[[Buffer, int], Message]
"""(buffer, offset of the body) -> message. The body ends where the buffer ends. Raises ProtocolViolation."""

SlicedDecoder = Callable[[Buffer, int], Generator[None, None, Message]]
"""A decoder as a generator. The buffer must not change until the generator ends.

A ProtocolViolation carries the partial message, so that it can be dismantled.
"""

TEXT: Final[dict[type, Callable[..., str]]] = {
    bytes: bytes.decode,
    bytearray: bytearray.decode,
    memoryview: lambda view: str(view, "utf-8"),
}
RANGES: Final = tuple(range(count) for count in range(16))
"""Most arrays are short, and an existing range is 0.13 us cheaper than a new one."""

MAX_ELEMENTS: Final = 100_000
"""Elements of all arrays of a request together, including its tagged fields.

An element costs the client two bytes and the broker 5 to 10 us, so 2 MB could block all other clients for ten
seconds. A Fetch or an OffsetCommit for all partitions of a broker stays far below.
"""

SLICE_BYTES: Final = 256 * 1024
"""Bytes decoded between two yields; our own limit. Text takes a nanosecond a byte."""

MAX_STRING_BYTES: Final = 0x7FFF
"""Longest string in bytes where its length is a varint, as in Kafka; other strings have 16-bit lengths."""


def compile_decoder(message: type[Message], version: int) -> Decoder:
    return _Decoder(message, version).build()  # type: ignore[no-any-return]


def compile_decoder_in_slices(message: type[Message], version: int) -> SlicedDecoder:
    return _Decoder(message, version, in_slices=True).build()  # type: ignore[no-any-return]


class _Decoder(Emitter):
    def __init__(self, message: type[Message], version: int, in_slices: bool = False) -> None:
        super().__init__(f"decode {message.__name__} v{version}", in_slices)
        self.title = f"{message.__name__} v{version}"
        self.version = version
        self.flexible = message.FLEXIBLE is not None and version >= message.FLEXIBLE
        self._is_request = message.__name__.endswith("Request")
        self._run: list[tuple[str, str]] = []
        self._ahead = 0
        self.names.update(
            {"struct_error": struct.error, "ProtocolViolation": ProtocolViolation, "new": object.__new__},
            read_rest=read_rest,
            read_uvarint=read_uvarint,
            skip_tags=skip_tags,
            unpack_from=struct.unpack_from,
            TEXT=TEXT,
            RANGES=RANGES,
        )
        with self.block("def run(buf, pos):"):
            if not in_slices:
                self._guarded(message)
                return
            self.emit("m0 = None")
            with self.block("try:"):
                self._guarded(message)
            with self.block("except ProtocolViolation as violation:"):
                self.emit("violation.keep_partial(m0)")
                self.emit("raise")

    def _guarded(self, message: type[Message]) -> None:
        with self.block("try:"):
            self._message(message)
        with self.block("except (struct_error, IndexError, UnicodeDecodeError) as fault:"):
            self.emit(f"raise ProtocolViolation(f'{self.title}: {{fault}}') from fault")

    def _message(self, message: type[Message]) -> None:
        kinds = self._kinds(message)
        self.emit("end = len(buf)")
        if self._is_request:
            self.emit(f"allowed = {MAX_ELEMENTS}")
        if "string" in kinds:
            self.emit("text = TEXT[type(buf)]")
        if kinds & {"bytes", "records"}:
            self.emit("view = memoryview(buf)")
        if self.in_slices:
            self._begin_slice()
        self._struct(message, "m0", 0)
        self._advance()
        # Kafka's broker ignores bytes after the end of a request, and librdkafka 2.16 relies on it: its
        # Metadata 13 request for all topics has three extra bytes.
        if not self._is_request:
            self._refuse_if("pos != end", "extra bytes after the end")
        if self.in_slices:
            with self.block("if False:"):
                self.emit("yield")  # makes it a generator even without array fields
        self.emit("return m0")

    def _begin_slice(self) -> None:
        self.emit(f"left = {SLICE}")
        self.emit(f"mark = pos + {SLICE_BYTES}")

    def _yield_if_due(self, cost: str) -> None:
        """End the slice if `cost` more elements or the bytes read so far exceed its limit."""
        self.emit(f"left -= {cost}")
        with self.block("if left < 0 or pos > mark:"):
            self.emit("yield")
            self._begin_slice()

    def _kinds(self, struct_type: type[Struct]) -> set[str]:
        kinds: set[str] = set()
        for field in in_version(struct_type, self.version):
            kinds |= {field.type} if isinstance(field.type, str) else self._kinds(field.type)
        return kinds

    # The next byte is at `pos`, a run-time value, plus `_ahead`, a compile-time value, plus the size of
    # `_run`.

    def _fixed(self, letter: str, target: str) -> None:
        self._run.append((letter, target))

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        size, unpack_from, _ = layout(letters)
        if letters == "B":
            self.emit(f"{targets} = buf[{self._here()}]")
        else:
            self.emit(f"{targets}, = {self.constant('unpack', unpack_from)}(buf, {self._here()})")
        self._run.clear()
        self._ahead += size

    def _here(self) -> str:
        return f"pos + {self._ahead}" if self._ahead else "pos"

    def _advance(self) -> None:
        """Emit code that makes `pos` the position of the next byte."""
        self._flush()
        if self._ahead:
            self.emit(f"pos += {self._ahead}")
            self._ahead = 0

    def _refuse_if(self, condition: str, why: str) -> None:
        with self.block(f"if {condition}:"):
            self.emit(f"raise ProtocolViolation('{self.title}: {why}')")

    def _struct(
        self, struct_type: type[Struct], name: str, depth: int, target: str = "", items: str = ""
    ) -> None:
        made = self.constant("Class", struct_type)
        self.emit(f"{name} = {target + ' = ' if target else ''}new({made})")
        if items and self.in_slices:
            self.emit(f"{items}.append({name})")  # links everything read so far to the message
        present = in_version(struct_type, self.version)
        for field in struct_type.FIELDS:
            if field not in present or field.tag is not None:
                self.emit(f"{name}.{field.name} = {self._initial(field)}")
        for field in present:
            if field.tag is None:
                self._field(field, f"{name}.{field.name}", depth)
        if self.flexible:
            self._tags([field for field in present if field.tag is not None], name, depth)

    def _initial(self, field: Field) -> str:
        if field.initial is LIST:
            return "[]"
        if isinstance(field.type, str) or field.tag is not None or field.nullable is not None:
            return repr(field.initial)
        return f"{self.constant('Class', field.type)}()"

    def _tags(self, known: list[Field], name: str, depth: int) -> None:
        self._fixed("B", "n")
        self._advance()
        if not known:
            with self.block("if n:"):
                self._count()
                self.emit("pos = skip_tags(buf, pos, end, n)")
                if self.in_slices:
                    self.emit("left -= 4 * n")  # n is less than 256 and counts at most MAX_TAGS elements
            return
        stop = f"stop{depth}"
        with self.block("if n:"):
            with self.block("if n > 127:"):
                self.emit("n, pos = read_rest(buf, pos, n)")
            self._count()
            with self.block("for _ in range(n):"):
                if self.in_slices:
                    self._yield_if_due("1")
                self.emit("tag, pos = read_uvarint(buf, pos)")
                self.emit("size, pos = read_uvarint(buf, pos)")
                self.emit(f"{stop} = pos + size")
                self._refuse_if(f"{stop} > end", "a tagged field exceeds the message")
                for place, field in enumerate(known):
                    with self.block(f"{'elif' if place else 'if'} tag == {field.tag}:"):
                        self._field(field, f"{name}.{field.name}", depth)
                        self._advance()
                with self.block("else:"):
                    self.emit(f"pos = {stop}")
                self._refuse_if(f"pos != {stop}", "the size of a tagged field does not match its content")

    def _field(self, field: Field, target: str, depth: int) -> None:
        nullable = field.nullable is not None and self.version >= field.nullable
        if field.array:
            self._array(field, target, nullable, depth)
        elif not isinstance(field.type, str):
            self._nested(field.type, target, nullable, depth)
        elif field.type in FIXED:
            self._fixed(FIXED[field.type], target)
        else:
            self._blob(field, target, nullable)

    def _nested(self, struct_type: type[Struct], target: str, nullable: bool, depth: int) -> None:
        if not nullable:
            self._struct(struct_type, f"m{depth + 1}", depth + 1, target)
            return
        # KIP-893: a signed byte says whether the struct follows.
        self._fixed("b", "n")
        self._advance()
        with self.block("if n < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self._struct(struct_type, f"m{depth + 1}", depth + 1, target)
            self._advance()

    def _blob(self, field: Field, target: str, nullable: bool) -> None:
        """Emit code for a string, bytes or records: a length, then as many bytes."""
        self._fixed("B" if self.flexible else "h" if field.type == "string" else "i", "n")
        self._flush()
        self.emit(f"start = {self._here()}")
        self._ahead = 0
        if self.flexible:
            with self.block("if n > 127:"):
                self.emit("n, start = read_rest(buf, start, n)")
                if field.type == "string":
                    self._refuse_if(
                        f"n > {MAX_STRING_BYTES + 1}", f"{field.name} is longer than {MAX_STRING_BYTES} bytes"
                    )
        stop = "start + n - 1" if self.flexible else "start + n"
        value = "text(buf[start:pos])" if field.type == "string" else "view[start:pos]"
        if not nullable:
            self.emit(f"pos = {stop}")
            self._refuse_if("not start <= pos <= end", f"{field.name} is null or exceeds the message")
            self.emit(f"{target} = {value}")
            return
        with self.block("if n > 0:" if self.flexible else "if n >= 0:"):
            self.emit(f"pos = {stop}")
            self._refuse_if("pos > end", f"{field.name} exceeds the message")
            self.emit(f"{target} = {value}")
        with self.block("else:"):
            self.emit(f"{target} = None")
            self.emit("pos = start")

    def _array(self, field: Field, target: str, nullable: bool, depth: int) -> None:
        self._fixed("B" if self.flexible else "i", "n")
        self._advance()
        if self.flexible:
            with self.block("if n > 127:"):
                self.emit("n, pos = read_rest(buf, pos, n)")
            self.emit("n -= 1")
        smallest = _smallest(field.type, self.version, self.flexible)
        needed = "n" if smallest == 1 else f"n * {smallest}"
        if not nullable:
            self._refuse_if(
                f"n < 0 or {needed} > end - pos", f"{field.name} is null or longer than the message"
            )
            self._count()
            self._elements(field, target, depth)
            return
        with self.block("if n < 0:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self._refuse_if(f"{needed} > end - pos", f"{field.name} is longer than the message")
            self._count()
            self._elements(field, target, depth)

    def _count(self) -> None:
        """Subtract `n` elements from the request's limit."""
        if self._is_request:
            self.emit("allowed -= n")
            self._refuse_if("allowed < 0", f"more than {MAX_ELEMENTS} elements")

    def _numbers_in_slices(self, target: str, letter: str, size: int, depth: int) -> None:
        """Emit code for an array of `n` fixed-size values, read in slices."""
        items = f"items{depth}"
        self.emit(f"{target} = {items} = []")
        with self.block("while n:"):
            self.emit(f"some = n if n < {NUMBERS} else {NUMBERS}")
            self.emit(f"{items} += unpack_from({letters_of(letter, 'some')}, buf, pos)")
            self.emit(f"pos += some * {size}")
            self.emit("n -= some")
            with self.block("if n:"):
                self.emit("yield")

    def _elements(self, field: Field, target: str, depth: int) -> None:
        items = f"items{depth}"
        if isinstance(field.type, str) and field.type in FIXED:
            letter = FIXED[field.type]
            size, _, _ = layout(letter)
            if self.in_slices:
                self._numbers_in_slices(target, letter, size, depth)
                return
            self.emit(f"{target} = list(unpack_from({letters_of(letter, 'n')}, buf, pos))")
            self.emit(f"pos += n * {size}" if size > 1 else "pos += n")
            return
        self.emit(f"{target} = {items} = []")
        with self.block(f"for _ in RANGES[n] if n < {len(RANGES)} else range(n):"):
            if self.in_slices:
                self._yield_if_due("1")
            if isinstance(field.type, str):
                self._blob(field, "item", nullable=False)
                self.emit(f"{items}.append(item)")
            else:
                self._struct(field.type, f"m{depth + 1}", depth + 1, items=items)
                self._advance()
                if not self.in_slices:
                    self.emit(f"{items}.append(m{depth + 1})")


def letters_of(letter: str, count: str) -> str:
    """Return an expression for the struct format of `count` values."""
    return f"'>' + '{letter}' * {count}" if letter == FIXED["uuid"] else f"f'>{{{count}}}{letter}'"


def _smallest(kind: str | type[Struct], version: int, flexible: bool) -> int:
    """Return the smallest number of bytes of a value of `kind`."""
    if isinstance(kind, str):
        if kind in FIXED:
            return layout(FIXED[kind])[0]
        return 1 if flexible else 2 if kind == "string" else 4
    total = 1 if flexible else 0
    for field in in_version(kind, version):
        if field.tag is not None:
            continue
        if field.array:
            total += 1 if flexible else 4
        elif not isinstance(field.type, str) and field.nullable is not None and version >= field.nullable:
            total += 1
        else:
            total += _smallest(field.type, version, flexible)
    return total
