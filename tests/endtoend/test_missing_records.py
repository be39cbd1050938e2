"""Segments and folders that are gone from the disk: a start says so, and offsets are not reused."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.broker_process import BrokerProcess
from tests.support.history import TOPIC, History, make_topic
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

OFFSET_OUT_OF_RANGE = 1
BATCHES = 30


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


async def fetched(client: WireClient, partition: int, offset: int) -> Any:
    wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[FetchTopic(TOPIC, partitions=[wanted])]
    )
    return (await client.ask(request, 11)).responses[0].partitions[0]


async def test_a_middle_segment_and_a_folder_that_are_gone_are_reported_and_out_of_range(
    tmp_path: Path,
) -> None:
    history = History()
    with BrokerProcess(tmp_path) as broker:
        await make_topic(port_of(broker), internal_segment_bytes="1000")
        client = await connect(port_of(broker))
        async with client.stream:
            for _ in range(BATCHES):
                for partition in (0, 1):
                    assert await history.produce_once(client, partition, 1) == 0
        assert broker.stop() == 0
        bases = sorted((tmp_path / f"{TOPIC}-0").glob("*.log"))
        start, end = int(bases[1].stem), int(bases[2].stem)
        for suffix in (".log", ".index", ".timeindex"):
            bases[1].with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(tmp_path / f"{TOPIC}-1")
        broker.log_lines.clear()
        broker.start()
        client = await connect(port_of(broker))
        async with client.stream:
            errors = [(await fetched(client, 0, offset)).error_code for offset in range(BATCHES)]
            assert [at for at, error in enumerate(errors) if error] == list(range(start, end))
            assert set(errors) == {0, OFFSET_OUT_OF_RANGE}
            assert (await fetched(client, 1, 0)).error_code == OFFSET_OUT_OF_RANGE
            assert (await fetched(client, 1, BATCHES)).error_code == 0
            # Asserts that no offset is given out twice.
            assert await history.produce_once(client, 1, 1) == 0
        rows = broker.ask("GET", f"/api/v1/topics/{TOPIC}")["partition_list"]
        assert [row["missing"] for row in rows] == [end - start, BATCHES, 0, 0]
        (storage,) = [s for s in broker.ask("GET", "/api/v1/doctor")["symptoms"] if s["key"] == "storage"]
        assert storage["level"] == "urgent"
        page = broker.ask("GET", "/metrics")
        for partition, missing in ((0, end - start), (1, BATCHES)):
            labels = f'topic="{TOPIC}",partition="{partition}"'
            assert f"weir_log_missing_offsets{{{labels}}} {missing}" in page
    log = "".join(broker.log_lines)
    assert "records are missing" in log and "the folder of a partition is missing" in log
