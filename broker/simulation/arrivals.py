"""The requests of a connection with their times: an iterator for each connection, read by `connection`.

Two kinds of requests are not yielded but counted here: those in an idle period of all their limits, which
cannot be throttled, and those that expired before they could be sent.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

import msgspec

from broker.simulation.scenario import SECOND_US, ClientLoad, Piece

PARTS: Final = 10
"""A second of a recorded client becomes at most this many requests; the recording has no finer times."""


class Arrival(NamedTuple):
    """`requests` requests with `nbytes` bytes in total, due at `at_us`."""

    at_us: int
    nbytes: int
    requests: int = 1


class Count(msgspec.Struct):
    """A number of requests and their bytes."""

    requests: int = 0
    nbytes: int = 0

    def add(self, requests: int, nbytes: int) -> None:
        self.requests += requests
        self.nbytes += nbytes


class RequestSender(msgspec.Struct, eq=False):
    """The state that a connection shares with its iterator.

    `idle_until` maps a time to the end of the idle period it lies in, or to itself outside of one.
    `free_us` is the time from which the connection can send; `patience_us` the time after which a delayed
    request expires, None for never. Delayed requests are sent together, up to `batch_bytes`. `not_simulated`
    counts the requests that are not simulated, `expired` those that expired.
    """

    idle_until: Callable[[int], int]
    batch_bytes: int
    patience_us: int | None
    free_us: int = 0
    not_simulated: Count = msgspec.field(default_factory=Count)
    expired: Count = msgspec.field(default_factory=Count)

    def expired_before_us(self) -> int:
        """Return the time before which requests have expired."""
        return 0 if self.patience_us is None else self.free_us - self.patience_us


def even_arrivals(
    pieces: Sequence[Piece], interval_us: float, nbytes: int, phase: float, sender: RequestSender
) -> Iterator[Arrival]:
    """Yield a request every `interval_us`, divided by the piece's factor; the first after `phase`
    intervals.
    """
    max_together, idle_until = max(sender.batch_bytes // nbytes, 1), sender.idle_until
    for piece in pieces:
        interval = interval_us / piece.factor
        first = piece.start_us + phase * interval
        count = ceil((piece.end_us - first) / interval)
        number = 0
        while number < count:
            at_us = int(first + number * interval)
            together, behind_us = 1, sender.free_us - at_us
            if behind_us > 0:
                skip_until, counted = sender.expired_before_us(), sender.expired
                together = min(1 + int(behind_us / interval), max_together, count - number)
            else:
                skip_until, counted = idle_until(at_us), sender.not_simulated
            if skip_until > at_us:
                skipped = min(ceil((skip_until - first) / interval), count) - number
                if skipped > 0:
                    counted.add(skipped, skipped * nbytes)
                    number += skipped
                    continue
            yield Arrival(at_us, together * nbytes, together)
            number += together


def even_arrival_count(pieces: Sequence[Piece], interval_us: float, phase: float) -> int:
    """Return the number of requests that `even_arrivals` makes of all pieces, including unsent ones."""
    return sum(
        ceil((piece.end_us - piece.start_us) / (interval_us / piece.factor) - phase) for piece in pieces
    )


def greedy_arrivals(
    pieces: Sequence[Piece], latency_us: int, nbytes: int, sender: RequestSender
) -> Iterator[Arrival]:
    """Yield the next request as soon as the connection is free."""
    for piece in pieces:
        at_us = max(piece.start_us, sender.free_us)
        while at_us < piece.end_us:
            idle_until = min(sender.idle_until(at_us), piece.end_us)
            if idle_until > at_us:
                skipped = ceil((idle_until - at_us) / latency_us)
                sender.not_simulated.add(skipped, skipped * nbytes)
                at_us += skipped * latency_us
            else:
                yield Arrival(at_us, nbytes)
                at_us = sender.free_us


def recorded_arrivals(record: ClientLoad, sender: RequestSender) -> Iterator[Arrival]:
    """Yield each second's requests in equal parts, evenly spaced."""
    for second, requests, nbytes in zip(record.seconds, record.requests, record.nbytes, strict=True):
        at_us = second * SECOND_US
        if at_us + SECOND_US <= sender.expired_before_us():
            sender.expired.add(requests, nbytes)
            continue
        if sender.idle_until(at_us) >= at_us + SECOND_US:
            sender.not_simulated.add(requests, nbytes)
            continue
        parts = min(requests, PARTS)
        for part in range(1, parts + 1):
            # Differences of cumulative parts, so that the parts sum to the whole.
            of_bytes = nbytes * part // parts - nbytes * (part - 1) // parts
            of_requests = requests * part // parts - requests * (part - 1) // parts
            yield Arrival(at_us + (part - 1) * SECOND_US // parts, of_bytes, of_requests)
