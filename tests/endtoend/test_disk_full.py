"""A disk that is full and then is not: errors that say so, nothing lost, and no restart needed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest
import trio

from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_process import BrokerProcess
from tests.support.full_disk import DISK_BYTES, files_refused, small_file_system
from tests.support.history import PARTITIONS, TOPIC, History, make_topic
from tests.support.produce import create_topic
from tests.support.quota_interfaces import set_by_rest
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

STORAGE_ERROR: Final = 56


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


def writes_refused(broker: BrokerProcess, most: int = 0) -> AbstractContextManager[None]:
    """No file of the broker grows beyond `most` bytes."""
    return files_refused(broker.running.pid, most)


async def produce(history: History, client: WireClient, count: int = 1, padding: int = 50) -> list[int]:
    """The error codes."""
    return [
        await history.produce_once(client, number % PARTITIONS, padding=padding) for number in range(count)
    ]


async def test_without_space_produce_says_so_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        assert await produce(history, client, 40) == [0] * 40
        with writes_refused(broker):
            assert await produce(history, client, 8) == [STORAGE_ERROR] * 8
            assert await history.check(port_of(broker)) == history.count
        assert await produce(history, client, 8) == [0] * 8
        assert await history.check(port_of(broker)) == history.count
        await client.stream.aclose()
        refused = broker.lines_with("a partition cannot be written", PARTITIONS)
        again = broker.lines_with("a partition is writable again", PARTITIONS)
        assert (len(refused), len(again)) == (PARTITIONS, PARTITIONS), "a line for each, not for each append"
        broker.kill()
        broker.start()
        assert await history.check(port_of(broker)) == history.count
        assert not [line for line in broker.log_lines if "Traceback" in line]


async def test_a_partition_that_cannot_be_made_is_made_later(tmp_path: Path) -> None:
    """Its topic is there, its log is not, and the connections of who asks for it go on."""
    history = History()
    with BrokerProcess(tmp_path) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        with writes_refused(broker):
            assert await produce(history, client, 2) == [STORAGE_ERROR] * 2
            assert await fetch_error(client) == STORAGE_ERROR
        assert await fetch_error(client) == 0
        assert await produce(history, client, 4) == [0] * 4
        assert await history.check(port_of(broker)) == history.count
        await client.stream.aclose()
        assert not [line for line in broker.log_lines if "Traceback" in line]


async def test_a_batch_that_fits_in_part_leaves_nothing_behind(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        assert await produce(history, client, 4) == [0] * 4
        size = (tmp_path / f"{TOPIC}-0" / f"{0:020}.log").stat().st_size
        with writes_refused(broker, size + 100):
            assert await produce(history, client) == [STORAGE_ERROR]
            assert (tmp_path / f"{TOPIC}-0" / f"{0:020}.log").stat().st_size == size
        assert await produce(history, client, 4) == [0] * 4
        assert await history.check(port_of(broker)) == history.count
        await client.stream.aclose()


async def test_changes_of_the_metadata_are_refused_whole(tmp_path: Path) -> None:
    """Quotas, topics and committed offsets: an error, nothing has changed, later a change goes through."""
    with BrokerProcess(tmp_path) as broker:
        await make_topic(port_of(broker))
        set_by_rest(broker, {"client-id": "app"}, 1_000)
        client = await connect(port_of(broker))
        await client.ask(create_topic("__consumer_offsets"), 5)
        assert await commit_offset(client, 7) == 0

        def limits() -> list[float]:
            items = broker.ask("GET", "/api/v1/client-quotas")["items"]
            return [item["limits"]["producer_byte_rate"]["value"] for item in items]

        with writes_refused(broker):
            with pytest.raises(HTTPError) as refused:
                set_by_rest(broker, {"client-id": "app"}, 2_000)
            refused.value.close()
            assert refused.value.code == 503
            assert await alter_quota(client, 3_000) == STORAGE_ERROR
            made = await client.ask(create_topic("other"), 5)
            assert made.topics[0].error_code == STORAGE_ERROR
            assert await commit_offset(client, 8) != 0
            assert limits() == [1_000]
        set_by_rest(broker, {"client-id": "app"}, 4_000)
        assert limits() == [4_000]
        made = await client.ask(create_topic("other"), 5)
        assert made.topics[0].error_code == 0
        assert await commit_offset(client, 9) == 0
        await client.stream.aclose()
        assert not [line for line in broker.log_lines if "Traceback" in line]
        broker.kill()
        broker.start()
        assert limits() == [4_000]


async def fetch_error(client: WireClient) -> int:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[partition])])
    answer = await client.ask(request, 11)
    return int(answer.responses[0].partitions[0].error_code)


async def commit_offset(client: WireClient, offset: int) -> int:
    place = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic(TOPIC, partitions=[place])])
    answer = await client.ask(request, 7)
    return int(answer.topics[0].partitions[0].error_code)


async def alter_quota(client: WireClient, limit: int) -> int:
    entry = RequestEntryData([EntityData("client-id", "app")], [OpData("producer_byte_rate", limit, False)])
    answer = await client.ask(AlterClientQuotasRequest([entry], False), 1)
    return int(answer.entries[0].error_code)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path) as mounted:
        yield mounted


async def test_a_disk_that_runs_full_is_reported_until_there_is_space_again(small_disk: Path) -> None:
    history = History()
    with BrokerProcess(small_disk) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        errors: list[int] = []
        while errors[-3:] != [STORAGE_ERROR] * 3:
            errors += await produce(history, client, 1, padding=50_000)
            assert set(errors) <= {0, STORAGE_ERROR} and len(errors) < 200
        assert errors.count(0) > 10
        assert await history.check(port_of(broker)) == history.count
        await trio.run_process(["mount", "-o", f"remount,size={4 * DISK_BYTES}", str(small_disk)])
        assert await produce(history, client, 8, padding=50_000) == [0] * 8
        assert await history.check(port_of(broker)) == history.count
        await client.stream.aclose()
        broker.kill()
        broker.start()
        assert await history.check(port_of(broker)) == history.count
