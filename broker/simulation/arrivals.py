"""Which requests a connection wants to send, and when: an iterator for each connection, read by `connection`.

Two kinds of requests are not handed out, but counted here: those that nobody could hold, as their limits are
calm, and those that were given up before they could be sent.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from broker.simulation.scenario import SECOND_US, Piece, Record

PARTS: Final = 10
"""A second of a recorded client is played as at most so many requests: more of it is not known."""


class Due(NamedTuple):
    """So many requests with so many bytes in all, wanted at `at_us`."""

    at_us: int
    nbytes: int
    requests: int = 1


class Count:
    """Requests and their bytes."""

    __slots__ = ("nbytes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.nbytes = 0

    def add(self, requests: int, nbytes: int) -> None:
        self.requests += requests
        self.nbytes += nbytes


class Sender:
    """What the iterators know of the connection that reads them.

    `idle_until`: from a time on, until when nothing need be played; the same time if it must be. `free_us` is
    since when it can send; `patience_us` how long a request waits before it is given up, None for ever;
    requests that had to wait go together, up to `batch_bytes`. `let_through` are those that are counted and
    not played, `given_up` those that are lost.
    """

    __slots__ = ("batch_bytes", "free_us", "given_up", "idle_until", "let_through", "patience_us")

    def __init__(self, idle_until: Callable[[int], int], batch_bytes: int, patience_us: int | None) -> None:
        self.idle_until = idle_until
        self.batch_bytes = batch_bytes
        self.patience_us = patience_us
        self.free_us = 0
        self.let_through = Count()
        self.given_up = Count()

    def too_late(self) -> int:
        """Requests from before this time are given up."""
        return 0 if self.patience_us is None else self.free_us - self.patience_us


def evenly(
    pieces: Sequence[Piece], interval_us: float, nbytes: int, phase: float, sender: Sender
) -> Iterator[Due]:
    """One request every `interval_us`, divided by the factor of the time; the first after `phase` of it."""
    most, idle_until = max(sender.batch_bytes // nbytes, 1), sender.idle_until
    for piece in pieces:
        interval = interval_us / piece.factor
        first = piece.start_us + phase * interval
        count = ceil((piece.end_us - first) / interval)
        number = 0
        while number < count:
            at_us = int(first + number * interval)
            together, behind_us = 1, sender.free_us - at_us
            if behind_us > 0:
                skip_until, counted = sender.too_late(), sender.given_up
                together = min(1 + int(behind_us / interval), most, count - number)
            else:
                skip_until, counted = idle_until(at_us), sender.let_through
            if skip_until > at_us:
                skipped = min(ceil((skip_until - first) / interval), count) - number
                if skipped > 0:
                    counted.add(skipped, skipped * nbytes)
                    number += skipped
                    continue
            yield Due(at_us, together * nbytes, together)
            number += together


def wanted(pieces: Sequence[Piece], interval_us: float, phase: float) -> int:
    """How many requests `evenly` makes of all pieces, however they end."""
    return sum(
        ceil((piece.end_us - piece.start_us) / (interval_us / piece.factor) - phase) for piece in pieces
    )


def greedily(pieces: Sequence[Piece], latency_us: int, nbytes: int, sender: Sender) -> Iterator[Due]:
    """The next request as soon as the connection is free."""
    for piece in pieces:
        at_us = max(piece.start_us, sender.free_us)
        while at_us < piece.end_us:
            idle_until = min(sender.idle_until(at_us), piece.end_us)
            if idle_until > at_us:
                skipped = ceil((idle_until - at_us) / latency_us)
                sender.let_through.add(skipped, skipped * nbytes)
                at_us += skipped * latency_us
            else:
                yield Due(at_us, nbytes)
                at_us = sender.free_us


def as_recorded(record: Record, sender: Sender) -> Iterator[Due]:
    """Each second's requests in equal parts, evenly over the second."""
    for second, requests, nbytes in zip(record.seconds, record.requests, record.nbytes, strict=True):
        at_us = second * SECOND_US
        if at_us + SECOND_US <= sender.too_late():
            sender.given_up.add(requests, nbytes)
            continue
        if sender.idle_until(at_us) >= at_us + SECOND_US:
            sender.let_through.add(requests, nbytes)
            continue
        parts = min(requests, PARTS)
        for part in range(1, parts + 1):
            # So that the parts sum to the whole.
            of_bytes = nbytes * part // parts - nbytes * (part - 1) // parts
            of_requests = requests * part // parts - requests * (part - 1) // parts
            yield Due(at_us + (part - 1) * SECOND_US // parts, of_bytes, of_requests)
