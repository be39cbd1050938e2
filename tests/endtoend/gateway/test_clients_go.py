"""Sarama and kafka-go, directly and through a gateway: what tests/endtoend/go_clients does."""

import pytest

from tests.endtoend.test_clients_go import CLIENTS
from tests.support import kafka_tools
from tests.support.client_programs import RECORDS, Program, go_program, needs
from tests.support.gateway_process import Way

pytestmark = [*kafka_tools.pytestmark, needs("go", "Go")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return go_program("go_clients", tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_reads_commits_and_goes_on_from_there(program: Program, way: Way, client: str) -> None:
    address = way.bootstrap("PLAINTEXT").partition(",")[0]
    output = program(client, "groups", address, environment={"PREFIX": way.topic("of") + "-"})
    assert output == {"produced": RECORDS, "read": RECORDS, "committed": RECORDS, "again": 0}
