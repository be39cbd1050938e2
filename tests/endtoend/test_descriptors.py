"""A broker with hardly any descriptors: it writes and reads more partitions than it may hold files open."""

from pathlib import Path

import pytest

from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.broker_process import BrokerProcess
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

KAFKA_STORAGE_ERROR = 56
PARTITIONS = 100


@pytest.mark.parametrize("limit", [64, 128])
async def test_100_partitions_are_written_and_read_under_a_low_limit(tmp_path: Path, limit: int) -> None:
    prefix = ("prlimit", f"--nofile={limit}:{limit}")
    with BrokerProcess(tmp_path, prefix=prefix) as broker:
        port = int(broker.plain.rpartition(":")[2])
        # The console is loaded while clients are served already, and reads its files only then.
        assert broker.ask("GET", "/readyz")
        client = await connect(port)
        async with client.stream:
            made = await client.ask(CreateTopicsRequest([CreatableTopic("many", PARTITIONS, 1)], 5_000), 5)
            assert made.topics[0].error_code == 0
            for partition in range(PARTITIONS):
                request = produce_request(bytearray(batch_of(b"one")), "many", partition, acks=-1)
                answer = await client.ask(request, PRODUCE_VERSION)
                assert answer.responses[0].partition_responses[0].error_code == 0
            missing = set(range(PARTITIONS))
            for _ in range(PARTITIONS):
                partitions = [
                    FetchPartition(each, fetch_offset=0, partition_max_bytes=1_000) for each in missing
                ]
                request = FetchRequest(
                    max_wait_ms=0,
                    min_bytes=0,
                    max_bytes=1_000_000,
                    topics=[FetchTopic("many", partitions=partitions)],
                )
                found = (await client.ask(request, 11)).responses[0].partitions
                assert {each.error_code for each in found} <= {0, KAFKA_STORAGE_ERROR}
                missing -= {each.partition_index for each in found if each.records}
                if not missing:
                    break
            assert not missing
        # Each connection takes a descriptor, and there are some for them too.
        for _ in range(5):
            again = await connect(port)
            await again.stream.aclose()
        assert "kafka_server_replicamanager_offlinereplicacount 0" in broker.ask("GET", "/metrics")
    log = "".join(broker.log_lines)
    assert "log.max.open.files is more than half of RLIMIT_NOFILE" in log
    assert len(broker.log_lines) < 30, log
