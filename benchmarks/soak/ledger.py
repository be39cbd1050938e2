"""What a topic must contain, by what its producers were told: the soak's check. Knows no client.

A record is a number of its topic. Its value contains the number and a padding made from it, so that a value
proves its own content. Producers never send a number twice, whatever became of it.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

PADDING: Final = 400
"""A value is up to so many bytes longer than its number."""

SHOWN: Final = 3
"""Offsets or numbers that a finding lists."""


def make_value(topic: str, number: int) -> bytes:
    """Return the value of a record; it is different for each topic and number."""
    head = f"{topic} {number} ".encode()
    pattern = b"%d." % (number * 2_654_435_761 % 4_294_967_296)
    size = number * 7_919 % PADDING
    return head + (pattern * (size // len(pattern) + 1))[:size]


def number_of(topic: str, value: bytes) -> int | None:
    """Return the number of a record, or None for a value that `make_value` did not make."""
    _, _, rest = value.partition(b" ")
    digits = rest.partition(b" ")[0]
    if not digits.isdigit():
        return None
    number = int(digits)
    return number if make_value(topic, number) == value else None


@dataclass(slots=True)
class Stored:
    """A partition from its first offset to its end, as a consumer of committed records sees it."""

    start: int
    numbers: dict[int, int] = field(default_factory=dict)
    """By offset."""

    foreign: list[int] = field(default_factory=list)
    """Offsets of values that nobody sent, or that changed."""

    size: int = 0
    """Bytes of all values."""


@dataclass(frozen=True, slots=True)
class Promised:
    """What the broker had acknowledged at one moment."""

    by_partition: dict[int, dict[int, int]]
    """Partition, offset, number."""

    replaced: dict[int, frozenset[int]]
    """Partition, and its offsets that were acknowledged for more than one record."""

    anywhere: frozenset[int]
    """Acknowledged without an offset, as librdkafka reports a batch that the broker knew already."""

    aborted: frozenset[int]
    undecided: tuple[frozenset[int], ...]
    """Transactions whose end was not acknowledged: all of it is there, or nothing."""

    @property
    def numbers(self) -> set[int]:
        found = set(self.anywhere)
        for offsets in self.by_partition.values():
            found.update(offsets.values())
        return found


class Ledger:
    """The acknowledgements of one topic. Its methods may be called from any thread."""

    def __init__(self, topic: str, kept_bytes: int = 0) -> None:
        """`kept_bytes`: retention must leave so many bytes of values in each partition."""
        self.topic = topic
        self.kept_bytes = kept_bytes
        self.count = 0
        """Acknowledged records, with those that retention has removed."""

        self.sent = 0
        self._lock = threading.Lock()
        self._by_partition: dict[int, dict[int, int]] = {}
        self._replaced: dict[int, set[int]] = {}
        self._anywhere: set[int] = set()
        self._aborted: set[int] = set()
        self._undecided: list[frozenset[int]] = []

    def next_number(self) -> int:
        with self._lock:
            self.sent += 1
            return self.sent - 1

    def send_below(self, number: int) -> None:
        """A producer that counts by itself may send the records below this number."""
        with self._lock:
            self.sent = max(self.sent, number)

    def acknowledge(self, partition: int, offset: int | None, number: int) -> None:
        with self._lock:
            self.count += 1
            if offset is None or offset < 0:
                self._anywhere.add(number)
                return
            first = self._by_partition.setdefault(partition, {}).setdefault(offset, number)
            if first != number:
                # The first one was lost, and another record took its place.
                self._replaced.setdefault(partition, set()).add(offset)

    def abort(self, numbers: Iterable[int]) -> None:
        """The broker has acknowledged the abort of a transaction with these records."""
        with self._lock:
            self._aborted.update(numbers)

    def leave_undecided(self, numbers: Iterable[int]) -> None:
        with self._lock:
            self._undecided.append(frozenset(numbers))

    def promised(self) -> Promised:
        """Return a copy: take it before reading the topic."""
        with self._lock:
            return Promised(
                {partition: dict(offsets) for partition, offsets in self._by_partition.items()},
                {partition: frozenset(offsets) for partition, offsets in self._replaced.items()},
                frozenset(self._anywhere),
                frozenset(self._aborted),
                tuple(self._undecided),
            )

    def forget_removed(self, stored: Mapping[int, Stored]) -> None:
        """Drop what retention has removed, so that a run of days needs no more memory."""
        first = oldest(stored)
        with self._lock:
            for partition, each in stored.items():
                offsets = self._by_partition.get(partition, {})
                for offset in [offset for offset in offsets if offset < each.start]:
                    del offsets[offset]
            self._anywhere = {number for number in self._anywhere if number >= first}
            self._aborted = {number for number in self._aborted if number >= first}
            self._undecided = [each for each in self._undecided if min(each) >= first]

    def check(self, promised: Promised, stored: Mapping[int, Stored], *, settled: bool) -> list[str]:
        """Return a line for each kind of difference; none if the topic has what it must have.

        `settled`: no producer was at work any more when the topic was read, so a transaction without an
        acknowledged end must be there whole or not at all.
        """
        found = []
        first = oldest(stored)
        for partition, each in sorted(stored.items()):
            place = f"{self.topic}-{partition}"
            if each.start and each.size < self.kept_bytes:
                found.append(f"{place}: begins at {each.start} with only {each.size} bytes of values")
            if each.foreign:
                found.append(f"{place}: {_some(each.foreign)} have a value that was never sent")
        for partition, offsets in sorted(promised.by_partition.items()):
            here = stored.get(partition, Stored(0))
            due = {offset: number for offset, number in offsets.items() if offset >= here.start}
            lost = [offset for offset in due if offset not in here.numbers]
            other = [offset for offset in due if here.numbers.get(offset, due[offset]) != due[offset]]
            place = f"{self.topic}-{partition}"
            if lost:
                found.append(f"{place}: {_some(lost)} were acknowledged and are lost")
            if other:
                found.append(f"{place}: {_some(other)} have another record than the acknowledged one")
        for partition, replaced in sorted(promised.replaced.items()):
            place = f"{self.topic}-{partition}"
            found.append(f"{place}: {_some(replaced)} were acknowledged for two records: one is lost")
        times = Counter(number for each in stored.values() for number in each.numbers.values())
        if twice := [number for number, count in times.items() if count > 1]:
            found.append(f"{self.topic}: the records {_some(twice)} are there more than once")
        if gone := [number for number in promised.anywhere if number not in times and number >= first]:
            found.append(f"{self.topic}: the records {_some(gone)} were acknowledged and are lost")
        if seen := [number for number in promised.aborted if number in times]:
            found.append(f"{self.topic}: the records {_some(seen)} of aborted transactions are visible")
        if unknown := [number for number in times if number >= self.sent]:
            found.append(f"{self.topic}: the records {_some(unknown)} were never sent")
        if settled:
            whole = [each for each in promised.undecided if min(each) >= first]
            if halves := [each for each in whole if 0 < sum(number in times for number in each) < len(each)]:
                found.append(f"{self.topic}: {len(halves)} transactions are visible in part")
        return found


def oldest(stored: Mapping[int, Stored]) -> int:
    """Return the first number that retention has removed from no partition. Numbers are produced in order."""
    return max((min(each.numbers.values(), default=0) for each in stored.values() if each.start), default=0)


def _some(places: Iterable[int]) -> str:
    """Return how many there are, and the first of them."""
    ordered = sorted(places)
    listed = ", ".join(map(str, ordered[:SHOWN]))
    return f"{len(ordered)} ({listed}{', ...' if len(ordered) > SHOWN else ''})"
