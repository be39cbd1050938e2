"""Errors that clients met and lines that the broker logged, each with the fault that explains it.

An error is explained if a rule fits its source and its text and, where the rule names faults, one of them was
in progress or had ended less than the rule's `settled_s` before. Everything else is unexplained, and the soak
fails. The caller gives the time, in seconds of a monotonic clock.
"""

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

SETTLED_S: Final = 60.0
"""Clients notice a fault late: by their time-outs and pauses before they try again."""

NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(slots=True)
class Fault:
    kind: str
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: str
    why: str
    faults: tuple[str, ...] = ()
    """Kinds of fault that cause it; none: it is expected at any time."""
    sources: tuple[str, ...] = ()
    """Whose errors it explains; none: everybody's."""
    settled_s: float = SETTLED_S

    def explains(self, source: str, text: str, faults: Iterable[Fault], now: float) -> bool:
        if (self.sources and source not in self.sources) or not re.search(self.pattern, text):
            return False
        return not self.faults or any(
            fault.kind in self.faults
            and fault.began <= now
            and (fault.ended is None or now < fault.ended + self.settled_s)
            for fault in faults
        )


@dataclass(slots=True)
class Anomaly:
    """All errors of one source whose texts differ in numbers only."""

    source: str
    text: str
    why: str
    first: float
    count: int = 0


@dataclass(slots=True)
class Anomalies:
    """The errors of a run so far. Its methods may be called from any thread."""

    rules: Sequence[Rule]
    faults: list[Fault] = field(default_factory=list)
    _found: dict[tuple[str, str, str], Anomaly] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, kind: str, now: float) -> Fault:
        fault = Fault(kind, now)
        self.faults.append(fault)
        return fault

    def add(self, source: str, text: str, now: float) -> None:
        why = next((each.why for each in self.rules if each.explains(source, text, self.faults, now)), "")
        # What differs in numbers only is one anomaly, and the first text is the one to show.
        key = (source, NUMBERS.sub("N", text), why)
        with self._lock:
            anomaly = self._found.setdefault(key, Anomaly(source, text, why, now))
            anomaly.count += 1

    def found(self) -> list[Anomaly]:
        """Return all of them, the unexplained first, then by their first occurrence."""
        with self._lock:
            return sorted(self._found.values(), key=lambda each: (bool(each.why), each.first))

    def unexplained(self) -> Iterable[Anomaly]:
        return [each for each in self.found() if not each.why]
