"""A broker that waits for a processor explains slow answers, and nothing else does."""

import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak.anomalies import SETTLED_S, Anomalies
from benchmarks.soak.broker_life import waited_s
from benchmarks.soak.explanations import BUSY, RULES
from benchmarks.soak.faults import BUSY_SHARE, Faults
from benchmarks.soak.stage import Stage


@pytest.fixture
def faults() -> Faults:
    nothing: Any = None
    return Faults(Stage(0, "", 1, Anomalies(RULES)), nothing, nothing, Path())


def spans(faults: Faults) -> list[tuple[str, float, float | None]]:
    return [(each.kind, each.began, each.ended) for each in faults._stage.anomalies.faults]


def test_the_second_number_is_what_a_thread_waited() -> None:
    assert waited_s("721761 4061040000 2\n") == 4.06104
    assert waited_s(Path("/proc/self/schedstat").read_text()) >= 0


@pytest.mark.parametrize(
    ("share", "busy"), [(BUSY_SHARE - 0.01, False), (BUSY_SHARE, True), (BUSY_SHARE + 0.01, True)]
)
def test_a_share_from_the_bound_on_is_a_busy_machine(faults: Faults, share: float, busy: bool) -> None:
    faults.note_busy(share)
    assert faults.counts[BUSY] == len(spans(faults)) == busy


def test_it_is_one_time_from_the_first_such_sample_to_the_first_other_one(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second, share in enumerate((0.1, 0.9, 0.8, 0.2, 0.1, 0.7)):
        monkeypatch.setattr(time, "monotonic", lambda second=second: float(second))
        faults.note_busy(share)
    assert spans(faults) == [(BUSY, 1.0, 3.0), (BUSY, 5.0, None)]


@pytest.mark.parametrize(
    ("text", "after", "explained"),
    [
        ("TimeoutError: timed out", -0.1, False),
        ("TimeoutError: timed out", 0, True),
        ("TimeoutError: timed out", 10 + SETTLED_S - 0.1, True),
        ("TimeoutError: timed out", 10 + SETTLED_S, False),
        ("Connection refused", 5, False),
    ],
)
def test_it_explains_what_took_too_long(text: str, after: float, explained: bool) -> None:
    anomalies = Anomalies(RULES)
    anomalies.begin(BUSY, 100).ended = 110
    anomalies.add("pages", text, 100 + after)
    assert [bool(each.why) for each in anomalies.found()] == [explained]
