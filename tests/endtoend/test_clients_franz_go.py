"""franz-go, the Go client: what tests/endtoend/franz does with a broker, built by the Go that is there."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.broker_process import USERS, BrokerProcess

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go"),
]

SOURCE: Final = Path(__file__).with_name("franz")
RECORDS: Final = 1_000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("franz") / "franz"
    subprocess.run(["go", "build", "-o", path, "."], cwd=SOURCE, check=True, timeout=300)
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=100") as process:
        yield process


def run(program: Path, what: str, *where: str) -> Any:
    done = subprocess.run([program, what, *where], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_compression_is_written_with_idempotence_and_read(program: Path, broker: BrokerProcess) -> None:
    output = run(program, "compressions", broker.plain)
    assert output == {"codecs": ["gzip", "lz4", "none", "snappy", "zstd"], "read": 5 * RECORDS}


def test_every_kind_of_acknowledgement_over_sasl(program: Path, broker: BrokerProcess) -> None:
    output = run(program, "acknowledgements", broker.sasl, "alice", USERS["alice"])
    assert output == {"read": 3 * RECORDS}


def test_a_group_rebalances_and_goes_on_from_what_was_committed(program: Path, broker: BrokerProcess) -> None:
    output = run(program, "groups", broker.plain)
    assert output == {"partitions": 4, "members": 2, "assigned": 4, "rest": 10}


def test_quotas_are_set_and_described(program: Path, broker: BrokerProcess) -> None:
    assert run(program, "quotas", broker.plain) == {"entries": 1, "value": 12_345.0}


def test_the_members_of_a_share_group_finish_each_record_once(program: Path, broker: BrokerProcess) -> None:
    numbers = range(RECORDS)
    rejected = [each for each in numbers if each % 7 == 0]
    released = [each for each in numbers if each % 10 == 0 and each % 7]
    assert run(program, "shares", broker.plain) == {
        "accepted": RECORDS - len(rejected),
        "rejected": len(rejected),
        "released": len(released),
        "twice": 0,
        "deliveries": 2,
    }
