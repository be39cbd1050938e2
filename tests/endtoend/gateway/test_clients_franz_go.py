"""franz-go, the Go client, directly and through a gateway: what tests/endtoend/franz does."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.endtoend.test_clients_franz_go import SOURCE
from tests.support import kafka_tools
from tests.support.broker_process import USERS
from tests.support.gateway_process import Way

pytestmark = [
    *kafka_tools.pytestmark,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]

RECORDS: Final = 1_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("franz") / "franz"
    subprocess.run(["go", "build", "-o", path, "."], cwd=SOURCE, check=True, timeout=300)
    return path


def run(program: Path, way: Way, what: str, *login: str) -> Any:
    address = way.bootstrap("SASL_PLAINTEXT" if login else "PLAINTEXT").partition(",")[0]
    done = subprocess.run(
        [program, what, address, *login],
        env=os.environ | {"PREFIX": way.topic("of") + "-"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_compression_is_written_with_idempotence_and_read(program: Path, way: Way) -> None:
    output = run(program, way, "compressions")
    assert output == {"codecs": ["gzip", "lz4", "none", "snappy", "zstd"], "read": 5 * RECORDS}


def test_every_kind_of_acknowledgement_over_sasl(program: Path, way: Way) -> None:
    assert run(program, way, "acknowledgements", "alice", USERS["alice"]) == {"read": 3 * RECORDS}


def test_a_group_rebalances_and_goes_on_from_what_was_committed(program: Path, way: Way) -> None:
    assert run(program, way, "groups") == {"partitions": 4, "members": 2, "assigned": 4, "rest": 10}


def test_transactions_are_committed_and_aborted(program: Path, way: Way) -> None:
    assert run(program, way, "transactions") == {"committed": 2 * RECORDS, "all": 3 * RECORDS}


def test_quotas_are_set_and_described(program: Path, way: Way) -> None:
    assert run(program, way, "quotas") == {"entries": 1, "value": 12_345.0}
