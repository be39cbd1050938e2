"""Sarama and kafka-go, Go clients: what tests/endtoend/go_clients does with a broker."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_programs import (
    RECORDS,
    SENT,
    THROTTLED_S,
    Program,
    broker_for_clients,
    go_program,
    limit,
    needs,
)

pytestmark = [pytest.mark.endtoend, pytest.mark.slow, needs("go", "Go")]

CLIENTS: Final = ("sarama", "kafka-go")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("go_clients", tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_reads_commits_and_goes_on_from_there(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    output = program(client, "groups", broker.plain)
    assert output == {"produced": RECORDS, "read": RECORDS, "committed": RECORDS, "again": 0}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_with_a_quota_waits_and_loses_nothing(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    limit(broker, client)
    output = program(client, "throttle", broker.plain)
    assert output["read"] == SENT
    assert output["seconds"] >= THROTTLED_S
