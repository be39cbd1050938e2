"""Sarama and kafka-go, Go clients: what tests/endtoend/go_clients does with a broker."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.certificates import certificates
from tests.support.client_programs import (
    MECHANISMS,
    RECORDS,
    SENT,
    THROTTLED_S,
    Program,
    broker_for_clients,
    go_program,
    limit,
    login,
    needs,
    tls_broker_for_clients,
    trusting,
    where,
)

pytestmark = [pytest.mark.endtoend, pytest.mark.slow, needs("go", "Go")]

CLIENTS: Final = ("sarama", "kafka-go")
READ: Final = {"produced": RECORDS, "read": RECORDS, "committed": RECORDS, "again": 0}
COMPRESSED: Final = {"codecs": ["none", "gzip", "snappy", "lz4", "zstd"], "read": 5 * RECORDS}
COMMITTED: Final = {"committed": RECORDS, "first": RECORDS}

each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("go_clients", tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with tls_broker_for_clients(tmp_path_factory.mktemp("tls")) as process:
        yield process


@each_client
def test_a_group_reads_commits_and_goes_on_from_there(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    assert program(client, "groups", where(broker.plain)) == READ


@each_client
def test_a_client_with_a_quota_waits_and_loses_nothing(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    limit(broker, client)
    output = program(client, "throttle", where(broker.plain))
    assert output["read"] == SENT
    assert output["seconds"] >= THROTTLED_S


@each_client
def test_every_compression_is_written_and_read(program: Program, broker: BrokerProcess, client: str) -> None:
    assert program(client, "compressions", where(broker.plain)) == COMPRESSED


def test_only_a_committed_transaction_is_read(program: Program, broker: BrokerProcess) -> None:
    """Of Sarama: kafka-go has no transactions."""
    assert program("sarama", "transactions", where(broker.plain)) == COMMITTED


@each_client
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_of_sasl(program: Program, broker: BrokerProcess, client: str, mechanism: str) -> None:
    there = where(broker.sasl, prefix=f"{mechanism}-", **login(mechanism))
    assert program(client, "compressions", there) == COMPRESSED


@each_client
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(
    program: Program, broker: BrokerProcess, client: str, mechanism: str
) -> None:
    wrong = login(mechanism) | {"password": "wrong"}
    with pytest.raises(AssertionError, match=r"(?i)authentication|credentials"):
        program(client, "compressions", where(broker.sasl, prefix=f"wrong-{mechanism}-", **wrong))


@each_client
def test_tls(program: Program, tls_broker: BrokerProcess, client: str) -> None:
    assert program(client, "compressions", where(tls_broker.plain, **trusting())) == COMPRESSED


@each_client
def test_a_broker_of_another_authority_is_not_trusted(
    program: Program, tls_broker: BrokerProcess, client: str
) -> None:
    stranger = where(tls_broker.plain, prefix="stranger-", ca=certificates().stranger.certificate.read_text())
    with pytest.raises(AssertionError, match=r"(?i)certificate"):
        program(client, "compressions", stranger)
