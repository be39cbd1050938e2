"""What needs attention, over REST and as a topic of the live stream."""

import threading
import time

import pytest

from broker.controller.alerts import AlertCondition, AlertRule, Severity
from broker.controller.rows.broker import DiskRow
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.live import attention
from webui.live.attention import ATTENTION, MAX_ITEMS

PATH = "/api/v1/attention"


async def test_alerts_that_fire_are_listed_by_severity(http: Browserless, broker: FakeBroker) -> None:
    for name, severity in (("a", Severity.INFO), ("b", Severity.CRITICAL), ("c", Severity.CRITICAL)):
        broker.add_rule(name, AlertRule(AlertCondition.LAG, 1.0, severity=severity))
    broker.alerts.counts = {"a": (0, 2, 0, 9.0), "b": (3, 1, 0, 9.0), "c": (5, 0, 0, 9.0)}
    answer = await http.get(PATH, token="viewer-token")
    report = ATTENTION.check(await answer.get_json())
    assert report["firing"] == 3
    assert report["alerts"] == [
        {"rule": "b", "severity": "critical", "firing": 1},
        {"rule": "a", "severity": "info", "firing": 2},
    ]
    assert (report["falling_behind"], report["groups"], report["disks"]) == (0, [], [])


async def test_disks_are_listed(http: Browserless, broker: FakeBroker) -> None:
    broker.disk_rows = [DiskRow("/d", 1_000, 100, 0.9)]
    report = ATTENTION.check(await (await http.get(PATH)).get_json())
    assert report["disks"] == [{"directory": "/d", "total_bytes": 1_000, "free_bytes": 100, "used": 0.9}]


async def test_a_list_is_bounded(http: Browserless, broker: FakeBroker) -> None:
    for number in range(MAX_ITEMS + 1):
        broker.add_rule(f"r{number}", AlertRule(AlertCondition.LAG, 1.0))
        broker.alerts.counts[f"r{number}"] = (0, 1, 0, 9.0)
    report = await (await http.get(PATH)).get_json()
    assert (report["firing"], len(report["alerts"])) == (MAX_ITEMS + 1, MAX_ITEMS)


async def test_a_disk_that_does_not_answer_holds_up_nothing(
    http: Browserless, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "DISKS_S", 0.05)
    broker.disk_rows = [DiskRow("/d", 1_000, 100, 0.9)]
    assert (await (await http.get(PATH)).get_json())["disks"] != []
    free, calls = threading.Event(), []

    def hang() -> list[DiskRow]:
        calls.append(time.monotonic())
        free.wait(60)
        return []

    monkeypatch.setattr(broker, "disks", hang, raising=False)
    try:
        for _ in range(3):
            broker.version += 1
            assert (await (await http.get(PATH)).get_json())["disks"] != [], "the last answer stands"
        # One thread waits for the disk; the others did not begin.
        assert len(calls) == 1
    finally:
        free.set()
