"""Flink's connector, exactly once, directly and through a gateway."""

from pathlib import Path

import pytest

from tests.endtoend.test_clients_flink import copy, create, each_naming, produce, read
from tests.support import jvm_clients, kafka_tools
from tests.support.gateway_process import Way
from tests.support.jvm_clients import classpath

pytestmark = [*jvm_clients.pytestmark, *kafka_tools.pytestmark]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath("flink", tmp_path_factory.mktemp("classes"))


@each_naming
def test_a_job_that_fails_in_the_middle_copies_each_record_once(
    path: str, way: Way, tmp_path: Path, naming: str
) -> None:
    name = way.topic("flink")
    create(way, name)
    produce(way, 0, 8_000, name)
    with copy(path, way, tmp_path, naming, name=name, fails_after=3_500, bounded=True) as job:
        (seen,) = job.said("done")
        assert int(seen) > 8_000, "the job has read some records again"
    assert read(way, name=name) == list(range(8_000))
    assert len(read(way, "read_uncommitted", name)) > 8_000, "some were in a transaction that was aborted"
