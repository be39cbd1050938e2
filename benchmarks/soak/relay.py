"""Writes what one client process tells (benchmarks.soak.clients.teller) into the ledgers of the stage.

Knows no process: `hear` takes a line, and `end` is called when no more can come.
"""

import json
import time

from benchmarks.soak.group_ledger import Place
from benchmarks.soak.stage import Stage


class Relay:
    def __init__(self, stage: Stage, name: str) -> None:
        self.closing = False
        """The client has nothing left to tell."""

        self._stage = stage
        self._name = name
        self._undecided: tuple[str, list[int]] | None = None

    def hear(self, line: bytes) -> None:
        """A line that is none of the protocol's is an error of the client."""
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        match told:
            case ["sending", topic, number]:
                self._stage.ledgers[topic].send_below(number)
            case ["acknowledged", topic, partition, offset, number]:
                self._stage.ledgers[topic].acknowledge(partition, offset, number)
            case ["begin", topic, numbers]:
                self._leave_undecided()
                self._undecided = topic, numbers
            case ["commit", topic, acknowledged]:
                self._undecided = None
                for partition, offset, number in acknowledged:
                    self._stage.ledgers[topic].acknowledge(partition, offset, number)
            case ["abort", topic] if self._undecided:
                self._stage.ledgers[topic].abort(self._undecided[1])
                self._undecided = None
            case ["delivered", group, topic, partition, runs]:
                for first, after in runs:
                    self._stage.groups[group].delivered(Place(topic, partition), first, after)
            case ["committed", group, offsets]:
                committed = {Place(topic, partition): offset for topic, partition, offset in offsets}
                self._stage.groups[group].committed(committed)
            case ["error", at, source, text]:
                self._stage.anomalies.add(source, text, at)
            case ["closing"]:
                self.closing = True
            case _:
                self._stage.anomalies.add(self._name, f"told {line[:200]!r}", time.monotonic())

    def end(self) -> None:
        """The process has ended, at whatever moment."""
        self._leave_undecided()

    def _leave_undecided(self) -> None:
        if self._undecided:
            topic, numbers = self._undecided
            self._stage.ledgers[topic].leave_undecided(numbers)
        self._undecided = None
