"""Records that the disk no longer gives: their partition is offline everywhere, and all others go on."""

import os
from pathlib import Path
from typing import Any

import pytest

from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import certificates
from tests.support.history import TOPIC, History, make_topic
from tests.support.wire import WireClient, connect, connect_tls

pytestmark = pytest.mark.endtoend

KAFKA_STORAGE_ERROR = 56


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


async def fetch_two(client: WireClient) -> dict[int, Any]:
    """Partitions 0 and 1 from their beginning."""
    partitions = [FetchPartition(each, fetch_offset=0, partition_max_bytes=4_000_000) for each in (0, 1)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=8_000_000, topics=[FetchTopic(TOPIC, partitions=partitions)]
    )
    answer = await client.ask(request, 11)
    return {each.partition_index: each for each in answer.responses[0].partitions}


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
async def test_records_that_are_read_from_the_disk_fail_their_own_partition_and_close_nothing(
    tmp_path: Path, transfer: str
) -> None:
    """After a start no records are known to be in the page cache."""
    history = History()
    with BrokerProcess(tmp_path, f"log.transfer={transfer}") as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        async with client.stream:
            for partition in (0, 1):
                assert await history.produce_once(client, partition) == 0
        broker.stop()
        broker.start()
        os.truncate(tmp_path / f"{TOPIC}-0" / f"{0:020d}.log", 100)
        client = await connect(port_of(broker))
        async with client.stream:
            for _ in range(2):
                found = await fetch_two(client)
                assert found[0].error_code == KAFKA_STORAGE_ERROR
                assert found[1].error_code == 0 and found[1].records
        page = broker.ask("GET", "/metrics")
        assert f'failedfetchrequests_total{{topic="{TOPIC}"}} 2' in page
        assert "kafka_server_replicamanager_offlinereplicacount 1" in page
    lines = [line for line in broker.log_lines if "a partition is offline" in line]
    assert len(lines) == 1 and str(tmp_path / f"{TOPIC}-0") in lines[0]


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
async def test_over_tls_a_file_truncated_under_its_readers_kills_no_process(
    tmp_path: Path, transfer: str
) -> None:
    """TLS encrypts in the process: reading a page of a mapping that is no longer there would be SIGBUS."""
    known = certificates()
    overrides = (
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={known.server.store}",
        f"log.transfer={transfer}",
    )
    history = History()
    with BrokerProcess(tmp_path, *overrides) as broker:
        await make_topic(port_of(broker))
        port = int(broker.sasl.rpartition(":")[2])
        client = await connect_tls(port, known.client_context())
        for partition in (0, 1):
            assert await history.produce_once(client, partition, padding=300_000) == 0
        whole = await fetch_two(client)
        assert {len(each.records) > 900_000 for each in whole.values()} == {True}
        os.truncate(tmp_path / f"{TOPIC}-0" / f"{0:020d}.log", 10)
        found = await fetch_two(client)
        assert {each: found[each].error_code for each in found} == {0: KAFKA_STORAGE_ERROR, 1: 0}
        assert broker.running.poll() is None
        assert broker.stop() == 0
        broker.start()


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
async def test_eio_while_reading_fails_its_own_partition_and_closes_no_connection(
    tmp_path: Path, transfer: str
) -> None:
    """A file that was truncated under the broker fails with EIO where its end was."""
    history = History()
    with BrokerProcess(tmp_path, f"log.transfer={transfer}") as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        async with client.stream:
            metadata = MetadataRequest([MetadataRequestTopic(name=TOPIC)], False)
            healthy = await client.ask(metadata, 12)
            assert {each.leader_id for each in healthy.topics[0].partitions} != {-1}
            for partition in (0, 1):
                assert await history.produce_once(client, partition) == 0
            os.truncate(tmp_path / f"{TOPIC}-0" / f"{0:020d}.log", 10)
            for _ in range(2):
                found = await fetch_two(client)
                assert found[0].error_code == KAFKA_STORAGE_ERROR
                assert found[1].error_code == 0 and found[1].records
            answer = await client.ask(metadata, 12)
            errors = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
            assert errors == {0: KAFKA_STORAGE_ERROR, 1: 0, 2: 0, 3: 0}
        detail = broker.ask("GET", f"/api/v1/topics/{TOPIC}")
        assert [bool(each["offline"]) for each in detail["partition_list"]] == [True, False, False, False]
        doctor = broker.ask("GET", "/api/v1/doctor")
        (storage,) = [each for each in doctor["symptoms"] if each["key"] == "storage"]
        assert storage["level"] == "urgent"
        page = broker.ask("GET", "/metrics")
        assert "kafka_server_replicamanager_offlinereplicacount 1" in page
        assert f'weir_log_offline_partitions{{topic="{TOPIC}"}} 1' in page
        # One while sending, one answered.
        assert f'failedfetchrequests_total{{topic="{TOPIC}"}} 2' in page
        assert "weir_responses_cut_off_total 0" in page
    lines = [line for line in broker.log_lines if "a partition is offline" in line]
    assert len(lines) == 1 and f"{TOPIC}-0" in lines[0]
