"""kill -9 with a temporary limit: the next run has it as long as it lasts, then the permanent one."""

import time
from pathlib import Path
from typing import Any

import pytest

from broker.common.temporary_limits import write_time
from tests.support.broker_process import BrokerProcess, within

pytestmark = pytest.mark.endtoend

QUOTAS = "/api/v1/client-quotas"
KEY = "producer_byte_rate"


def rule(broker: BrokerProcess) -> dict[str, Any]:
    return broker.ask("GET", f"{QUOTAS}/user=orders")


def set_limit(broker: BrokerProcess, op: dict[str, Any]) -> None:
    broker.ask("PATCH", QUOTAS, {"entries": [{"entity": {"user": "orders"}, "ops": [{"key": KEY, **op}]}]})


def test_a_killed_broker_has_the_value_of_the_time_at_which_it_starts(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    with broker:
        set_limit(broker, {"value": 10})
        set_limit(broker, {"value": 50, "until": write_time((round(time.time()) + 3_600) * 1_000)})
        broker.kill()
        broker.start()
        found = rule(broker)
        assert (found["limits"][KEY]["value"], found["temporary"][KEY]["permanent"]) == (50, 10)
        until_s = time.time() + 1
        set_limit(broker, {"value": 70, "until": write_time(round(until_s * 1_000))})
        version = rule(broker)["version"]
        broker.kill()
        within(10, lambda: time.time() > until_s, "the limit has ended while no broker runs")
        broker.start()
        found = rule(broker)
        assert found["limits"][KEY]["value"] == 10
        assert "temporary" not in found
        assert found["version"] == version, "nothing was written"


def test_the_permanent_value_returns_while_the_broker_runs(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        set_limit(broker, {"value": 10})
        until_s = time.time() + 1.5
        set_limit(broker, {"value": 50, "until": write_time(round(until_s * 1_000))})
        version = rule(broker)["version"]
        while (value := rule(broker)["limits"][KEY]["value"]) == 50:
            assert time.time() < until_s + 10
            time.sleep(0.02)
        assert value == 10
        assert time.time() >= until_s
        assert rule(broker)["version"] == version
