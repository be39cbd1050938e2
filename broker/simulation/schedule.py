"""A client's demand over time, as pieces with a constant share of its rate.

Made by `reading` from the scenario, and cut to the client's start and stop.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import cos, pi
from typing import Final

from broker.simulation.scenario import SECOND_US, Piece

DAY_US: Final = 86_400 * SECOND_US
STEP_US: Final = 900 * SECOND_US
"""A day's curve has steps of 15 minutes, each with the curve's value in its middle."""


@dataclass(frozen=True, slots=True)
class Constant:
    def pieces(self, end_us: int) -> Iterator[Piece]:
        yield Piece(0, end_us, 1.0)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A cosine between `low` of the rate, twelve hours from `peak_us`, and all of it."""

    low: float
    peak_us: int

    def pieces(self, end_us: int) -> Iterator[Piece]:
        for start in range(0, end_us, STEP_US):
            angle = 2 * pi * (start + STEP_US / 2 - self.peak_us) / DAY_US
            factor = self.low + (1 - self.low) * (1 + cos(angle)) / 2
            if factor > 0:
                yield Piece(start, min(start + STEP_US, end_us), factor)


@dataclass(frozen=True, slots=True)
class Bursts:
    """The full rate for `length_us` at the start of every `every_us`, `low` of it in between."""

    every_us: int
    length_us: int
    low: float

    def pieces(self, end_us: int) -> Iterator[Piece]:
        for start in range(0, end_us, self.every_us):
            yield Piece(start, min(start + self.length_us, end_us), 1.0)
            if self.low > 0 and start + self.length_us < end_us:
                yield Piece(start + self.length_us, min(start + self.every_us, end_us), self.low)


Schedule = Constant | Diurnal | Bursts


def between(pieces: Iterable[Piece], start_us: int, stop_us: int) -> tuple[Piece, ...]:
    """Return the parts of the pieces from `start_us` to `stop_us`."""
    cut = (Piece(max(p.start_us, start_us), min(p.end_us, stop_us), p.factor) for p in pieces)
    return tuple(piece for piece in cut if piece.start_us < piece.end_us)
