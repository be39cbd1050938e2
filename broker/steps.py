"""Long work of the pure packages, as generators that stop after each bounded piece of it.

Whoever runs one decides when others have a turn: `broker.disk.tasks` between the pieces, tests never.
"""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

Steps = Generator[None, None, Result]
"""Yields after each piece, and returns what all of them come to."""


def finished(steps: Steps[Result]) -> Result:
    """The same in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
