"""KafkaJS, Platformatic's client and rskafka, directly and through a gateway: what js_clients
and rust_clients in tests/endtoend do.
"""

from typing import Any

import pytest

from tests.endtoend.test_clients_rust import CLIENT as RSKAFKA
from tests.endtoend.test_clients_rust import READ
from tests.support import kafka_tools
from tests.support.client_programs import (
    JS_CLIENTS,
    RATE,
    RECORDS,
    SENT,
    THROTTLED_S,
    js_program,
    login,
    needs,
    rust_program,
    trusting,
    where,
)
from tests.support.gateway_process import Way

pytestmark = kafka_tools.pytestmark

needs_node = needs("npm", "Node")
needs_rust = needs("cargo", "Rust")
js_clients = pytest.mark.parametrize("client", JS_CLIENTS)


def at(way: Way, listener: str = "PLAINTEXT", **more: Any) -> str:
    return where(way.bootstrap(listener), prefix=way.topic("of") + "-", replicas=3, **more)


def limit(way: Way, client: str, key: str) -> None:
    what = ("--alter", "--add-config", f"{key}={RATE}", "--entity-type", "clients")
    kafka_tools.run(
        kafka_tools.CONFIGS, "--bootstrap-server", way.plain, *what, "--entity-name", f"greedy-{client}"
    )


@needs_node
@js_clients
def test_a_group_reads_commits_and_goes_on_from_there(way: Way, client: str) -> None:
    assert js_program()(client, "groups", at(way)) == {
        "produced": RECORDS,
        "read": RECORDS,
        "committed": RECORDS,
        "rest": list(range(RECORDS, RECORDS + 10)),
    }


@needs_node
@js_clients
def test_only_a_committed_transaction_is_read_over_sasl(way: Way, client: str) -> None:
    output = js_program()(client, "transactions", at(way, "SASL_PLAINTEXT", **login("SCRAM-SHA-512")))
    assert output == {"committed": RECORDS, "first": RECORDS}


@needs_node
@js_clients
def test_every_compression_is_written_and_read_over_tls(way: Way, client: str) -> None:
    output = js_program()(client, "compressions", at(way, "SSL", **trusting()))
    assert output["read"] == len(output["codecs"]) * RECORDS


@needs_node
@js_clients
def test_a_topic_is_made_described_extended_and_deleted(way: Way, client: str) -> None:
    output = js_program()(client, "admin", at(way))
    assert output == {"retention": "123456", "partitions": 4, "left": False}


@needs_node
@js_clients
def test_a_producer_with_a_quota_waits_and_loses_nothing(way: Way, client: str) -> None:
    limit(way, client, "producer_byte_rate")
    output = js_program()(client, "throttle", at(way))
    assert output["read"] == SENT
    assert output["seconds"] >= THROTTLED_S


@needs_rust
def test_a_rust_client_writes_lists_reads_and_deletes_over_sasl(way: Way) -> None:
    there = at(way, "SASL_PLAINTEXT", **login("SCRAM-SHA-256"))
    assert rust_program()(RSKAFKA, "records", there) == READ


@needs_rust
def test_every_compression_of_the_rust_client_is_written_and_read(way: Way) -> None:
    assert rust_program()(RSKAFKA, "compressions", at(way))["read"] == 5 * RECORDS


@needs_rust
def test_a_rust_consumer_with_a_quota_waits_and_loses_nothing(way: Way) -> None:
    limit(way, RSKAFKA, "consumer_byte_rate")
    output = rust_program()(RSKAFKA, "throttle", at(way))
    assert (output["read"], output["different"]) == (SENT, 30)
    assert output["seconds"] >= THROTTLED_S
