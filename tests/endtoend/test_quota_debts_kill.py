"""kill -9 with a client in debt: the client that comes back to the next run waits for the rest of it."""

import os
import time
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer, ThrottleEvent

from broker.quotas.saved_usage import Saved, SavedUsage
from broker.server.parts.quota_usage import FILE, decode
from tests.support.broker_process import BrokerProcess, within

pytestmark = pytest.mark.endtoend

LIMIT: Final = 10_000
SENT: Final = 600_000
TOPIC: Final = "debts"
RULE: Final = {
    "entries": [{"entity": {"client-id": "greedy"}, "ops": [{"key": "producer_byte_rate", "value": LIMIT}]}]
}


def produce(broker: BrokerProcess, size: int) -> float:
    """Produce a record with a client of its own; return the seconds for which it is throttled."""
    waits: list[float] = []

    def throttled(event: ThrottleEvent) -> None:
        waits.append(event.throttle_time)

    producer = Producer(
        {"bootstrap.servers": broker.plain, "client.id": "greedy", "throttle_cb": throttled, "linger.ms": 0}
    )
    producer.produce(TOPIC, os.urandom(size))
    assert producer.flush(60) == 0
    producer.poll(1)
    return max(waits, default=0.0)


def saved(directory: Path) -> tuple[Saved, SavedUsage] | None:
    """Return what is saved of the client, once it is."""
    try:
        usage = decode((directory / FILE).read_bytes())
    except FileNotFoundError:
        return None
    return next(((usage, entry) for entry in usage.entries if entry.client_id == "greedy"), None)


def test_a_client_of_a_killed_broker_owes_what_it_owed(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    with broker:
        broker.ask("PATCH", "/api/v1/client-quotas", RULE)
        began_s = time.time()
        assert produce(broker, SENT) > 30, "what ten seconds' worth do not cover"
        usage, entry = within(5, lambda: saved(tmp_path), "the debt is saved")
        broker.kill()
        assert entry.spent is not None
        # As much as was sent, less what was repaid until the save, and one second at most.
        repaid_s = usage.wall_ms / 1_000 - began_s
        assert SENT / LIMIT - repaid_s - 1 <= entry.spent / LIMIT <= (SENT + 1_000) / LIMIT
        broker.start()
        before_s = time.time()
        waits_s = produce(broker, 1)
        after_s = time.time()
        owed_s = entry.spent / LIMIT + usage.wall_ms / 1_000
        assert owed_s - after_s - 0.01 <= waits_s <= owed_s - before_s + 0.01
        assert not broker.lines_with("quotas start without", count=0)


def test_a_client_of_a_killed_broker_owes_nothing_where_debts_are_not_saved(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, "quota.usage.persistence.enable=false")
    with broker:
        broker.ask("PATCH", "/api/v1/client-quotas", RULE)
        assert produce(broker, SENT) > 30
        broker.kill()
        broker.start()
        assert produce(broker, 1) == 0
        assert not (tmp_path / FILE).exists()
