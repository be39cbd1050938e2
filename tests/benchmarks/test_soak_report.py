"""What a soak passes with, and each thing that fails it."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.process import Broker
from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.broker_life import Life
from benchmarks.soak.group_ledger import Place
from benchmarks.soak.report import MOST_MB, judge, life_line, slope_after
from benchmarks.soak.stage import Stage


@pytest.fixture
def stage() -> Stage:
    """After a run in which every client has done something."""
    stage = Stage(0, "", 1, Anomalies(()))
    for ledger in stage.ledgers.values():
        ledger.acknowledge(0, 0, 0)
    for group in stage.groups.values():
        group.delivered(Place("t", 0), 0, 1)
    return stage


def life(minutes: float, megabytes_a_minute: float = 0.0, descriptors_a_minute: float = 0.0) -> Life:
    process: Any = None
    found = Life(1, Broker(0, process, Path()), 0.0, 0.5, Path(), minutes=minutes, ended="killed")
    for sample in range(int(minutes * 6) + 1):
        found.memory.append((sample / 6, 60 + megabytes_a_minute * sample / 6))
        found.descriptors.append((sample / 6, 100 + descriptors_a_minute * sample / 6))
    return found


def failures(stage: Stage, *lives: Life, findings: tuple[str, ...] = ()) -> list[str]:
    return judge(lives, findings, stage.anomalies, stage).failures


def test_a_run_without_findings_passes(stage: Stage) -> None:
    assert judge([life(3), life(30)], [], stage.anomalies, stage).passed


def test_a_finding_fails_it(stage: Stage) -> None:
    assert failures(stage, findings=("t-0: 1 (7) lost",)) == ["LOST OR CHANGED: t-0: 1 (7) lost"]


def test_an_unexplained_error_fails_it(stage: Stage) -> None:
    stage.anomalies.add("broker", "Traceback", 0)
    assert failures(stage) == ["unexplained, 1 times: broker: Traceback"]


def test_a_client_that_did_nothing_fails_it() -> None:
    idle = Stage(0, "", 1, Anomalies(()))
    told = failures(idle)
    assert len(told) == len(idle.ledgers) + len(idle.groups)
    assert "soak-raw: nothing was acknowledged" in told and "readers-aiokafka: nothing was read" in told


@pytest.mark.parametrize(
    ("minutes", "slope", "fails"), [(9.9, 1.1, False), (10, 0.99, False), (10, 1.01, True)]
)
def test_memory_that_grows_in_the_second_half_of_a_long_life_fails_it(
    stage: Stage, minutes: float, slope: float, fails: bool
) -> None:
    assert bool(failures(stage, life(minutes, megabytes_a_minute=slope))) is fails


@pytest.mark.parametrize(
    ("megabytes", "fails"), [(MOST_MB - 1, False), (MOST_MB, False), (MOST_MB + 1, True)]
)
def test_memory_above_its_limit_fails_a_life_of_any_length(
    stage: Stage, megabytes: float, fails: bool
) -> None:
    short = life(1)
    short.memory.append((1.1, megabytes))
    assert bool(failures(stage, short)) is fails


@pytest.mark.parametrize(("minutes", "slope", "fails"), [(1.9, 6, False), (2, 4.9, False), (2, 5.1, True)])
def test_descriptors_that_stay_open_fail_it(stage: Stage, minutes: float, slope: float, fails: bool) -> None:
    assert bool(failures(stage, life(minutes, descriptors_a_minute=slope))) is fails


def test_a_slope_needs_samples_after_the_warm_up() -> None:
    points = [(minute / 6, float(minute)) for minute in range(10)]
    assert slope_after(points, 1) == pytest.approx(6)
    assert slope_after(points, 1.2) is None
    assert " - " in life_line(life(0.5))
