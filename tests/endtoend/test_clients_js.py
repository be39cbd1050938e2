"""KafkaJS and Platformatic's client, in JavaScript: what tests/endtoend/js_clients does with a broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.certificates import certificates
from tests.support.client_programs import (
    JS_CLIENTS,
    MECHANISMS,
    RECORDS,
    SENT,
    THROTTLED_S,
    Program,
    broker_for_clients,
    js_program,
    limit,
    login,
    needs,
    tls_broker_for_clients,
    trusting,
    where,
)

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.slow,
    needs("npm", "Node"),
    pytest.mark.parametrize("client", JS_CLIENTS),
]


@pytest.fixture(scope="module")
def program() -> Program:
    return js_program()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with tls_broker_for_clients(tmp_path_factory.mktemp("tls")) as process:
        yield process


def test_a_group_reads_commits_and_goes_on_from_there(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    assert program(client, "groups", where(broker.plain)) == {
        "produced": RECORDS,
        "read": RECORDS,
        "committed": RECORDS,
        "rest": list(range(RECORDS, RECORDS + 10)),
    }


def test_a_client_with_a_quota_waits_and_loses_nothing(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    limit(broker, client)
    output = program(client, "throttle", where(broker.plain))
    assert output["read"] == SENT
    assert output["seconds"] >= THROTTLED_S


def test_every_compression_of_the_client_is_written_and_read(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    output = program(client, "compressions", where(broker.plain))
    assert {"none", "gzip", "snappy"} <= set(output["codecs"])
    assert output["read"] == len(output["codecs"]) * RECORDS


def test_only_a_committed_transaction_is_read(program: Program, broker: BrokerProcess, client: str) -> None:
    output = program(client, "transactions", where(broker.plain))
    assert output == {"committed": RECORDS, "first": RECORDS}


def test_a_topic_is_made_described_extended_and_deleted(
    program: Program, broker: BrokerProcess, client: str
) -> None:
    output = program(client, "admin", where(broker.plain))
    assert output == {"retention": "123456", "partitions": 4, "left": False}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_of_sasl(program: Program, broker: BrokerProcess, client: str, mechanism: str) -> None:
    output = program(client, "transactions", where(broker.sasl, prefix=f"{mechanism}-", **login(mechanism)))
    assert output == {"committed": RECORDS, "first": RECORDS}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(
    program: Program, broker: BrokerProcess, client: str, mechanism: str
) -> None:
    wrong = login(mechanism) | {"password": "wrong"}
    with pytest.raises(AssertionError, match=r"(?i)authentication|credentials"):
        program(client, "admin", where(broker.sasl, prefix=f"wrong-{mechanism}-", **wrong))


def test_tls(program: Program, tls_broker: BrokerProcess, client: str) -> None:
    output = program(client, "compressions", where(tls_broker.plain, **trusting()))
    assert output["read"] == len(output["codecs"]) * RECORDS


def test_a_broker_of_another_authority_is_not_trusted(
    program: Program, tls_broker: BrokerProcess, client: str
) -> None:
    stranger: dict[str, Any] = {"ca": certificates().stranger.certificate.read_text()}
    with pytest.raises(AssertionError, match=r"(?i)certificate"):
        program(client, "admin", where(tls_broker.plain, prefix="stranger-", **stranger))
