"""Generates and compiles the function that counts the error codes of a response.

Called by the routes, once per response and version. The function runs for every response of a handler, so for
a response without errors it only tests each error field and allocates nothing. For large responses the same
function is compiled as a generator, which yields None after a bounded number of array elements and returns
the counts. Independent of any specific message. (Kafka: AbstractResponse.errorCounts)
"""

from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Final

from broker.protocol import codec
from broker.protocol.emitter import SLICE, Emitter
from broker.protocol.schema import Field, Struct, in_version

Collector = Callable[[Struct], Mapping[int, int]]
"""The count of each error code but 0 in a response, in the order of their first occurrence on the wire."""

SlicedCollector = Callable[[Struct], Generator[None, None, Mapping[int, int]]]
"""A collector as a generator."""

NONE: Final[Mapping[int, int]] = {}

NOT_COUNTED: Final = "topic_config_error_code"
"""Names the reason why a part of a successful response is missing; Kafka does not count it either."""


@cache
def error_codes(api_key: int, version: int) -> Collector:
    """Return the collector. Raises ProtocolViolation if no schema has this API key."""
    return _Compiler(codec.response_class(api_key), version).build()  # type: ignore[no-any-return]


@cache
def error_codes_in_slices(api_key: int, version: int) -> SlicedCollector:
    """Return the collector as a generator. Raises ProtocolViolation if no schema has this API key."""
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
                    self.emit("yield")  # makes it a generator even without array fields
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
