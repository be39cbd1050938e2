"""Lets go of a large message a slice at a time.

Python frees an object as soon as its last holder drops it, and what only that object held with it: dropping a
message with 100,000 elements takes 5 to 15 ms in one piece. Called by the handler pool for large requests and
answers, for what was read of a large request before it turned out to be none, and for what the work on a
request had made when its client went. Changes no message, so whoever holds a part of one keeps it. Knows no
message by name.
"""

from collections.abc import Generator, Iterator
from itertools import chain
from types import GeneratorType
from typing import Any, Final

from broker.protocol.schema import Struct

AT_ONCE: Final = 512
"""Elements that are dropped between two yields; ours. One takes 0.5 to 2 microseconds, with its texts and its
empty arrays.
"""

Large = Struct | list[Any] | set[Any]


def held_by(work: Generator[Any, Any, Any]) -> Iterator[Large]:
    """What the local variables of a suspended generator hold, and of those that it delegates to."""
    inner: Any = work
    while isinstance(inner, GeneratorType) and inner.gi_frame is not None:
        yield from (
            each for each in inner.gi_frame.f_locals.values() if isinstance(each, Struct | list | set)
        )
        inner = inner.gi_yieldfrom


def dismantle(message: Large | None) -> Generator[None, None, None]:
    """Yields None after a bounded number of elements. The caller drops its own reference to `message` when it
    has made the generator, so that the generator is its last holder. In a list of structs each one is
    dismantled; anything else in a list or a set is dropped as it is.
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
    while levels:  # what holds others goes before them, so that each slice frees no more than its own
        level = levels.pop()
        while level:
            del level[-AT_ONCE:]
            yield


def _children(struct_type: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """What holds other objects in a struct: arrays, and structs of which there is one."""
    return tuple(
        (field.name, field.array)
        for field in struct_type.FIELDS
        if field.array or not isinstance(field.type, str)
    )
