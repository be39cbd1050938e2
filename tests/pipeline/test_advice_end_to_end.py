"""Advice that is set at a real broker does there what its row promises, for clients of four kinds."""

import threading
import time
from collections import Counter

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer
from pyspark.sql import functions as F

from pipeline.gold import seconds, throttling
from pipeline.gold.advice import MEASURED, Policy, quota_advice
from pipeline.streaming import Stream
from tests.pipeline.clients import KINDS, REQUEST_BYTES, due_ms
from weir.testing import Broker

MINUTES = 2

SCALE = 10
"""A tenth of the bytes of `clients`, so that they and the broker need little of a processor."""

LOOSE = Policy(throttled_requests=0.3, longest_wait_ms=10_000, headroom=1.0, least_minutes=1)
"""Limits that throttle: what they promise is more than nothing."""

DEFAULT = Policy(least_minutes=1)

CLIENTS = {
    **{kind: (kind, DEFAULT) for kind in KINDS},
    # A steady client at the limit that it just keeps is throttled by its own jitter or not at all.
    **{f"{kind}-loose": (kind, LOOSE) for kind in ("bursty", "mixed")},
}

HELD = 20_000
"""The limit of the saturated client from the beginning."""


def send(bootstrap, name, begin):
    """Produce by the client's schedule from `begin` on; a request waits for the one before it."""
    kind, _ = CLIENTS[name]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "acks": "1",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 1,
        }
    )
    # So that connecting does not delay the first requests.
    producer.list_topics("t", 10)
    for due in due_ms(KINDS[kind], MINUTES):
        time.sleep(max(begin + due / 1_000 - time.time(), 0))
        producer.produce("t", b"x" * (REQUEST_BYTES // SCALE - 100))
        producer.poll(0)
    time.sleep(max(begin + MINUTES * 60 - time.time(), 0))
    producer.purge()
    producer.flush(10)


def run_clients(broker):
    """Let all clients send for whole minutes of the clock. Return when they began."""
    begin = (time.time() // 60 + 1) * 60
    while begin - time.time() < 3:
        begin += 60
    threads = [
        threading.Thread(target=send, args=(broker.bootstrap_servers, name, begin)) for name in CLIENTS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return begin


def read(broker, warehouse):
    # The topics are written once a second.
    time.sleep(2)
    for _ in Stream(warehouse, broker.bootstrap_servers, {}, 1_000_000).once():
        pass


def since(warehouse, table, begin):
    return warehouse.read(table).where(
        F.unix_seconds("minute").between(int(begin), int(begin) + MINUTES * 60 - 1)
    )


def advised(warehouse, begin):
    """Return each client's row, by the policy of its name."""
    found = {}
    for policy in (DEFAULT, LOOSE):
        rows = quota_advice(
            since(warehouse, seconds.SECONDS, begin),
            since(warehouse, throttling.THROTTLING, begin),
            F.current_date(),
            policy,
        )
        for row in rows.where("key = 'producer_byte_rate'").collect():
            if row["client_id"] in CLIENTS and CLIENTS[row["client_id"]][1] is policy:
                found[row["client_id"]] = row
    return found


def measured(warehouse, begin):
    """Return the shares of requests and of time that were throttled, by client."""
    throttles, waits, requests, active = Counter(), Counter(), Counter(), Counter()
    for row in since(warehouse, throttling.THROTTLING, begin).where("kind = 'produce'").collect():
        throttles[row["client_id"]] += row["throttles"]
        waits[row["client_id"]] += row["throttle_ms"]
    for row in since(warehouse, seconds.SECONDS, begin).collect():
        requests[row["client_id"]] += sum(second["produce_requests"] for second in row["seconds"])
        active[row["client_id"]] += 60_000
    return {name: (throttles[name] / requests[name], waits[name] / active[name]) for name in CLIENTS}


@pytest.mark.slow
@pytest.mark.endtoend
def test_what_a_row_promises_happens_at_a_real_broker(spark, warehouse):
    with Broker({"log.retention.bytes": 50_000_000}) as broker:
        broker.create_topic("t")
        broker.set_quota(client_id="saturated", producer_byte_rate=HELD)
        begin = run_clients(broker)
        read(broker, warehouse)
        rows = advised(warehouse, begin)
        assert rows.keys() == CLIENTS.keys()
        for name, row in rows.items():
            print(name, row["needed"], row["recommended"], row["reason"])
            is_held = name == "saturated"
            assert (row["basis"] == MEASURED, row["recommended"] is None) == (is_held, is_held)
            assert row["held_limit"] == (HELD if is_held else None)
            if row["recommended"] is not None:
                broker.set_quota(client_id=name, producer_byte_rate=row["recommended"])
        begin = run_clients(broker)
        read(broker, warehouse)
    happened = measured(warehouse, begin)
    for name, row in rows.items():
        promised = row["throttled_requests_share"], row["throttled_time_share"]
        print(name, "promised", promised, "happened", happened[name])
    assert all(rows[f"{kind}-loose"]["throttled_requests_share"] > 0.2 for kind in ("bursty", "mixed"))
    for name, row in rows.items():
        promised = row["throttled_requests_share"], row["throttled_time_share"]
        of_requests, of_time = happened[name]
        assert of_requests == pytest.approx(promised[0], abs=0.05), name
        # Between two throttles a saturated client waits for its processor: on a busy machine for longer.
        assert of_time == pytest.approx(promised[1], abs=0.1 if row["basis"] == MEASURED else 0.05), name
