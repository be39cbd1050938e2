"""franz-go, the Go client: what tests/endtoend/franz does with a broker, built by the Go that is there."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.broker_process import USERS, BrokerProcess
from tests.support.client_programs import RECORDS, Program, broker_for_clients, go_program, needs

pytestmark = [pytest.mark.endtoend, needs("go", "Go")]

REJECTED: Final = len(range(0, RECORDS, 7))
SHARED: Final = {
    "accepted": RECORDS - REJECTED,
    "rejected": REJECTED,
    "released": len(range(0, RECORDS, 10)) - len(range(0, RECORDS, 70)),
    "twice": 0,
    "deliveries": 2,
}
"""What the members of a share group do: of seven records one is rejected, of ten others one released once."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("franz", tmp_path_factory.mktemp("franz"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data")) as process:
        yield process


def test_every_compression_is_written_with_idempotence_and_read(
    program: Program, broker: BrokerProcess
) -> None:
    output = program("compressions", broker.plain)
    assert output == {"codecs": ["gzip", "lz4", "none", "snappy", "zstd"], "read": 5 * RECORDS}


def test_every_kind_of_acknowledgement_over_sasl(program: Program, broker: BrokerProcess) -> None:
    output = program("acknowledgements", broker.sasl, "alice", USERS["alice"])
    assert output == {"read": 3 * RECORDS}


def test_a_group_rebalances_and_goes_on_from_what_was_committed(
    program: Program, broker: BrokerProcess
) -> None:
    output = program("groups", broker.plain)
    assert output == {"partitions": 4, "members": 2, "assigned": 4, "rest": 10}


def test_transactions_are_committed_and_aborted(program: Program, broker: BrokerProcess) -> None:
    assert program("transactions", broker.plain) == {"committed": 2 * RECORDS, "all": 3 * RECORDS}


def test_quotas_are_set_and_described(program: Program, broker: BrokerProcess) -> None:
    assert program("quotas", broker.plain) == {"entries": 1, "value": 12_345.0}


def test_the_members_of_a_share_group_finish_each_record_once(
    program: Program, broker: BrokerProcess
) -> None:
    assert program("shares", broker.plain) == SHARED
