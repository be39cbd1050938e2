"""Frees a large message in slices.

Python frees an object, and everything that only it references, when its last reference is dropped: a message
with 100,000 elements takes 5 to 15 ms at once. The handler pool calls this for large requests and responses,
for the partial message of an invalid large request, and for the intermediate results of a request whose
client has disconnected. It does not change the message, so a part that is referenced elsewhere survives.
Independent of any specific message.
"""

from collections.abc import Generator, Iterator
from itertools import chain
from types import GeneratorType
from typing import Any, Final

from broker.protocol.schema import Struct

AT_ONCE: Final = 512
"""Elements freed between two yields; our own limit.

One takes 0.5 to 2 microseconds, with its strings and empty arrays.
"""

Large = Struct | list[Any] | set[Any]


def locals_of(work: Generator[Any, Any, Any]) -> Iterator[Large]:
    """Yield the local variables of a suspended generator and of the generators that it delegates to."""
    inner: Any = work
    while isinstance(inner, GeneratorType) and inner.gi_frame is not None:
        yield from (
            each for each in inner.gi_frame.f_locals.values() if isinstance(each, Struct | list | set)
        )
        inner = inner.gi_yieldfrom


def dismantle(message: Large | None) -> Generator[None, None, None]:
    """Free `message`, yielding None after a bounded number of elements.

    The caller drops its own reference to `message` after creating the generator, so that the generator has
    the last one. Each struct of a list of structs is dismantled; other elements of a list or a set are
    dropped whole.
    """
    levels: list[list[Any]] = [list(message) if isinstance(message, list | set) else [message]]
    message = None
    for level in levels:
        if level and isinstance(level[0], Struct):
            for name, is_array in _children(type(level[0])):
                children: list[Any] = []
                for at in range(0, len(level), AT_ONCE):
                    if at:
                        yield
                    found = [getattr(each, name, None) for each in level[at : at + AT_ONCE]]
                    children += chain.from_iterable(filter(None, found)) if is_array else filter(None, found)
                    del found
                if children:
                    levels.append(children)
                yield
        del level
    levels.reverse()
    while levels:  # parents before their children, so that each slice frees only its own objects
        level = levels.pop()
        while level:
            del level[-AT_ONCE:]
            yield


def _children(struct_type: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a struct that hold other objects: arrays and single structs."""
    return tuple(
        (field.name, field.array)
        for field in struct_type.FIELDS
        if field.array or not isinstance(field.type, str)
    )
