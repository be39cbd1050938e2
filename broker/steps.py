"""Long operations of the pure packages, as generators that yield after each bounded piece of work.

`broker.disk.metadata_writer` runs other tasks between the pieces; tests run all pieces at once.
"""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Yields after each piece, and returns the result of all pieces."""


def finished(steps: Steps[Result]) -> Result:
    """Run all pieces and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
