"""A broker whose metadata file is gone or damaged: it does not start over the records as if it were new."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.server.disk.stores import METADATA_FILE
from tests.support.broker_process import WEIR, BrokerProcess
from tests.support.history import PARTITIONS, TOPIC, History, make_topic
from tests.support.quota_interfaces import set_by_rest
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

STARTS_WITHIN_S: Final = 30


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


def refused_start(directory: Path, *options: str) -> str:
    """What it says on standard error."""
    settings = [f"--override=log.dirs={directory}", "--override=listeners=PLAINTEXT://127.0.0.1:0"]
    settings.append("--override=console.listener=127.0.0.1:0")
    done = subprocess.run(
        [WEIR, "serve", *settings, *options],
        capture_output=True,
        text=True,
        timeout=STARTS_WITHIN_S,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


async def topic_id_of(port: int) -> bytes:
    client = await connect(port)
    async with client.stream:
        answer = await client.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)], False), 12)
        assert answer.topics[0].error_code == 0
        return bytes(answer.topics[0].topic_id)


async def filled(directory: Path) -> tuple[History, bytes]:
    history = History()
    with BrokerProcess(directory) as broker:
        await make_topic(port_of(broker))
        client = await connect(port_of(broker))
        async with client.stream:
            for number in range(20):
                assert await history.produce_once(client, number % PARTITIONS) == 0
        return history, await topic_id_of(port_of(broker))


def names_in(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir() if each.is_dir()}


@pytest.mark.parametrize("lost", ["removed", "emptied"])
async def test_a_start_without_metadata_refuses_and_touches_nothing_and_a_rebuild_serves_all_records(
    tmp_path: Path, lost: str
) -> None:
    history, topic_id = await filled(tmp_path)
    metadata = tmp_path / METADATA_FILE
    if lost == "removed":
        metadata.unlink()
    else:
        metadata.write_bytes(b"")
    before = names_in(tmp_path)
    output = await trio.to_thread.run_sync(refused_start, tmp_path)
    assert str(metadata) in output and "--rebuild-metadata" in output and "Traceback" not in output
    assert names_in(tmp_path) == before and f"{TOPIC}-0" in before
    with BrokerProcess(tmp_path, options=("--rebuild-metadata",)) as broker:
        assert await history.check(port_of(broker)) == history.count
        assert await topic_id_of(port_of(broker)) == topic_id
    with BrokerProcess(tmp_path) as broker:
        assert await history.check(port_of(broker)) == history.count
    assert names_in(tmp_path) >= before


async def test_metadata_that_lost_its_topics_stop_the_start(tmp_path: Path) -> None:
    """As a file from a backup that is older than the topic."""
    with BrokerProcess(tmp_path):
        pass
    old = (tmp_path / METADATA_FILE).read_bytes()
    history, _ = await filled(tmp_path)
    (tmp_path / METADATA_FILE).write_bytes(old)
    output = await trio.to_thread.run_sync(refused_start, tmp_path)
    assert "does not list the topics" in output and f"{TOPIC}-0" in output
    with BrokerProcess(tmp_path, options=("--rebuild-metadata",)) as broker:
        assert await history.check(port_of(broker)) == history.count


@pytest.mark.parametrize("lost", ["removed", "emptied"])
def test_metadata_that_are_lost_before_the_first_record_stop_the_start(tmp_path: Path, lost: str) -> None:
    with BrokerProcess(tmp_path) as broker:
        set_by_rest(broker, {"client-id": "greedy"}, 123_456)
        broker.kill()
    kept = (tmp_path / METADATA_FILE).read_bytes()
    for each in tmp_path.glob(f"{METADATA_FILE}*"):
        each.unlink()
    if lost == "emptied":
        (tmp_path / METADATA_FILE).touch()
    output = refused_start(tmp_path)
    (line,) = [each for each in output.splitlines() if each.startswith("weir: ")]
    # The topics of events may exist already.
    assert "an earlier start left" in line or "topic folders (__weir_" in line
    assert str(tmp_path / METADATA_FILE) in line and "--rebuild-metadata" in line
    # One bit of the quota, in the file from the backup.
    at = kept.index(b"123456")
    (tmp_path / METADATA_FILE).write_bytes(kept[:at] + b"9" + kept[at + 1 :])
    output = refused_start(tmp_path)
    (line,) = [each for each in output.splitlines() if each.startswith("weir: ")]
    assert "1 of its rows are damaged" in line and "producer_byte_rate" in line
    (tmp_path / METADATA_FILE).write_bytes(kept)
    with BrokerProcess(tmp_path) as broker:
        (rule,) = broker.ask("GET", "/api/v1/client-quotas")["items"]
        assert rule["limits"]["producer_byte_rate"]["value"] == 123_456
