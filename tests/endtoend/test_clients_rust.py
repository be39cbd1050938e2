"""rskafka, in Rust: what tests/endtoend/rust_clients does with a broker. It has no groups."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess, within
from tests.support.certificates import certificates
from tests.support.client_programs import (
    MECHANISMS,
    RECORDS,
    SENT,
    THROTTLED_S,
    Program,
    broker_for_clients,
    limit,
    login,
    needs,
    rust_program,
    tls_broker_for_clients,
    trusting,
    where,
)

pytestmark = [pytest.mark.endtoend, pytest.mark.slow, needs("cargo", "Rust")]

CLIENT: Final = "rskafka"
PATIENCE_S: Final = 2
"""How long the client tries where it must fail."""
READ: Final = {
    "acknowledged": RECORDS,
    "before": [0, RECORDS],
    "read": RECORDS,
    "different": RECORDS,
    "after": [10, RECORDS],
}


@pytest.fixture(scope="module")
def program() -> Program:
    return rust_program()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with tls_broker_for_clients(tmp_path_factory.mktemp("tls")) as process:
        yield process


def test_records_are_written_listed_read_and_deleted(program: Program, broker: BrokerProcess) -> None:
    assert program(CLIENT, "records", where(broker.plain)) == READ


def test_a_consumer_with_a_quota_waits_and_loses_nothing(program: Program, broker: BrokerProcess) -> None:
    limit(broker, CLIENT, "consumer_byte_rate")
    output = program(CLIENT, "throttle", where(broker.plain))
    limit(broker, CLIENT, "consumer_byte_rate", None)
    assert (output["read"], output["different"]) == (SENT, 30)
    assert output["seconds"] >= THROTTLED_S


def test_a_throttled_produce_is_sent_again_until_it_is_not_throttled(
    program: Program, broker: BrokerProcess
) -> None:
    """rskafka 0.6 takes a throttle time for a refusal, and so writes twice: nothing is lost."""
    limit(broker, CLIENT)
    with ThreadPoolExecutor() as threads:
        found = threads.submit(program, CLIENT, "resend", where(broker.plain))
        within(60, lambda: (broker.throttled("greedy-rskafka") or {}).get("times", 0) >= 2, "sent again")
        limit(broker, CLIENT, rate=None)
        output = found.result()
    assert output["different"] == 2
    assert output["there"] >= 4


def test_every_compression_is_written_and_read(program: Program, broker: BrokerProcess) -> None:
    output = program(CLIENT, "compressions", where(broker.plain))
    assert output == {"codecs": ["none", "gzip", "snappy", "lz4", "zstd"], "read": 5 * RECORDS}


def test_a_topic_is_made_found_and_deleted(program: Program, broker: BrokerProcess) -> None:
    assert program(CLIENT, "admin", where(broker.plain)) == {"found": True, "left": False}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_of_sasl(program: Program, broker: BrokerProcess, mechanism: str) -> None:
    there = where(broker.sasl, prefix=f"{mechanism}-", **login(mechanism))
    assert program(CLIENT, "records", there) == READ


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(program: Program, broker: BrokerProcess, mechanism: str) -> None:
    wrong = login(mechanism) | {"password": "wrong"}
    with pytest.raises(AssertionError, match=r"(?i)authentication"):
        program(CLIENT, "admin", where(broker.sasl, prefix="wrong-", patience_s=PATIENCE_S, **wrong))


def test_tls(program: Program, tls_broker: BrokerProcess) -> None:
    assert program(CLIENT, "records", where(tls_broker.plain, **trusting())) == READ


def test_a_broker_of_another_authority_is_not_trusted(program: Program, tls_broker: BrokerProcess) -> None:
    stranger: dict[str, Any] = {"ca": certificates().stranger.certificate.read_text()}
    with pytest.raises(AssertionError, match=r"(?i)certificate"):
        program(CLIENT, "admin", where(tls_broker.plain, patience_s=PATIENCE_S, **stranger))
