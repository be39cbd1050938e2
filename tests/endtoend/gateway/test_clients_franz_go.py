"""franz-go, the Go client, directly and through a gateway: what tests/endtoend/franz does."""

from typing import Any

import pytest

from tests.endtoend.test_clients_franz_go import SHARED
from tests.support import kafka_tools
from tests.support.broker_process import USERS
from tests.support.client_programs import RECORDS, Program, go_program, needs
from tests.support.gateway_process import Way

pytestmark = [*kafka_tools.pytestmark, needs("go", "Go")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("franz", tmp_path_factory.mktemp("franz"))


def run(program: Program, way: Way, what: str, *login: str) -> Any:
    address = way.bootstrap("SASL_PLAINTEXT" if login else "PLAINTEXT").partition(",")[0]
    return program(what, address, *login, environment={"PREFIX": way.topic("of") + "-"})


def test_every_compression_is_written_with_idempotence_and_read(program: Program, way: Way) -> None:
    output = run(program, way, "compressions")
    assert output == {"codecs": ["gzip", "lz4", "none", "snappy", "zstd"], "read": 5 * RECORDS}


def test_every_kind_of_acknowledgement_over_sasl(program: Program, way: Way) -> None:
    assert run(program, way, "acknowledgements", "alice", USERS["alice"]) == {"read": 3 * RECORDS}


def test_a_group_rebalances_and_goes_on_from_what_was_committed(program: Program, way: Way) -> None:
    assert run(program, way, "groups") == {"partitions": 4, "members": 2, "assigned": 4, "rest": 10}


def test_transactions_are_committed_and_aborted(program: Program, way: Way) -> None:
    assert run(program, way, "transactions") == {"committed": 2 * RECORDS, "all": 3 * RECORDS}


def test_quotas_are_set_and_described(program: Program, way: Way) -> None:
    assert run(program, way, "quotas") == {"entries": 1, "value": 12_345.0}


def test_the_members_of_a_share_group_finish_each_record_once(program: Program, way: Way) -> None:
    assert run(program, way, "shares") == SHARED
