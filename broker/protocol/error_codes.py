"""Writes and compiles the function that collects the error codes of an answer. (Kafka:
AbstractResponse.errorCounts)

Called by the routes, once per response and version; what it makes is called with every answer that a handler
gives, so a message without a fault costs a test for each of its error fields and nothing is built. For large
answers there is a generator, which yields None after a bounded number of array elements and counts the codes.
Knows no message by name.
"""

from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Final

from broker.protocol import codec
from broker.protocol.compile_decode import in_version
from broker.protocol.emitter import SLICE, Emitter
from broker.protocol.schema import Field, Struct

Collector = Callable[[Struct], Mapping[int, int]]
"""How often an answer has each error code but 0, in the order of their first places on the wire."""

SlicedCollector = Callable[[Struct], Generator[None, None, Mapping[int, int]]]
"""The same as a generator."""

NONE: Final[Mapping[int, int]] = {}

NOT_COUNTED: Final = "topic_config_error_code"
"""Says why a part of a successful answer is missing; Kafka does not count it either."""


@cache
def error_codes(api_key: int, version: int) -> Collector:
    """Raises ProtocolViolation when no schema has that API key."""
    return _Compiler(codec.response_class(api_key), version).build()  # type: ignore[no-any-return]


@cache
def error_codes_in_slices(api_key: int, version: int) -> SlicedCollector:
    """Raises ProtocolViolation when no schema has that API key."""
    return _Compiler(codec.response_class(api_key), version, in_slices=True).build()  # type: ignore[no-any-return]


def is_error_code(field: Field) -> bool:
    return field.type == "int16" and field.name.endswith("error_code") and field.name != NOT_COUNTED


class _Compiler(Emitter):
    def __init__(self, message: type[Struct], version: int, in_slices: bool = False) -> None:
        super().__init__(f"error codes of {message.__name__} v{version}", in_slices)
        self._version = version
        with self.block("def run(m0):"):
            if in_slices:
                self.emit("found = {}")
                self.emit(f"left = {SLICE}")
            else:
                self.names["NONE"] = NONE
                self.emit("found = NONE")
            self._struct(message, 0)
            if in_slices:
                with self.block("if False:"):
                    self.emit("yield")  # a generator, also where no field is an array
            self.emit("return found")

    def _struct(self, struct_type: type[Struct], depth: int) -> None:
        this, inner = f"m{depth}", f"m{depth + 1}"
        for field in in_version(struct_type, self._version):
            if is_error_code(field):
                with self.block(f"if {this}.{field.name}:"):
                    if not self.in_slices:
                        with self.block("if found is NONE:"):
                            self.emit("found = {}")
                    self.emit(f"code = {this}.{field.name}")
                    self.emit("found[code] = found.get(code, 0) + 1")
            elif not isinstance(field.type, str) and self._has_codes(field.type):
                items = f"{this}.{field.name}"
                if not field.array:
                    items = f"() if {items} is None else ({items},)"
                elif field.nullable is not None:
                    items += " or ()"
                with self.block(f"for {inner} in {items}:"):
                    if self.in_slices:
                        self.emit("left -= 1")
                        with self.block("if left < 0:"):
                            self.emit("yield")
                            self.emit(f"left = {SLICE}")
                    self._struct(field.type, depth + 1)

    def _has_codes(self, struct_type: type[Struct]) -> bool:
        return any(
            is_error_code(field) or (not isinstance(field.type, str) and self._has_codes(field.type))
            for field in in_version(struct_type, self._version)
        )
