"""Sarama and kafka-go, directly and through a gateway: what tests/endtoend/go_clients does."""

import pytest

from tests.endtoend.gateway.test_clients_js_rust import at, limit
from tests.endtoend.test_clients_go import COMMITTED, COMPRESSED, READ, each_client
from tests.support import kafka_tools
from tests.support.client_programs import (
    MECHANISMS,
    SENT,
    THROTTLED_S,
    Program,
    go_program,
    login,
    needs,
    trusting,
)
from tests.support.gateway_process import Way

pytestmark = [*kafka_tools.pytestmark, needs("go", "Go")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("go_clients", tmp_path_factory.mktemp("go"))


@each_client
def test_a_group_reads_commits_and_goes_on_from_there(program: Program, way: Way, client: str) -> None:
    assert program(client, "groups", at(way)) == READ


@each_client
def test_a_producer_with_a_quota_waits_and_loses_nothing(program: Program, way: Way, client: str) -> None:
    limit(way, client, "producer_byte_rate")
    output = program(client, "throttle", at(way))
    assert output["read"] == SENT
    assert output["seconds"] >= THROTTLED_S


def test_only_a_committed_transaction_is_read(program: Program, way: Way) -> None:
    assert program("sarama", "transactions", at(way)) == COMMITTED


@each_client
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_of_sasl(program: Program, way: Way, client: str, mechanism: str) -> None:
    assert program(client, "compressions", at(way, "SASL_PLAINTEXT", **login(mechanism))) == COMPRESSED


@each_client
def test_every_compression_is_written_and_read_over_tls(program: Program, way: Way, client: str) -> None:
    assert program(client, "compressions", at(way, "SSL", **trusting())) == COMPRESSED
