"""A real broker that is killed with kill -9 while members of a share group hold records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from broker.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.coordinator.share.consumers import acquired_in
from tests.coordinator.share.members import ACCEPT, REJECT, RELEASE
from tests.support.broker_process import BrokerProcess
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.wire import WireClient, connect

pytestmark = pytest.mark.endtoend

GROUP: Final = "readers"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as running:
        yield running


def port_of(broker: BrokerProcess) -> int:
    return int(broker.plain.rpartition(":")[2])


async def initialize(client: WireClient) -> bytes:
    """Make a topic with ten records, and the state of the group; return the topic's id."""
    await client.ask(create_topic(), 5)
    produced = await client.ask(produce_request(batch_of(*[b"value"] * 10)), PRODUCE_VERSION)
    assert produced.responses[0].partition_responses[0].error_code == 0
    metadata = await client.ask(MetadataRequest([MetadataRequestTopic(name="events")]), 12)
    topic_id: bytes = metadata.topics[0].topic_id
    key = f"{GROUP}:AAECAwQFBgcICQoLDA0ODw:0"
    found = await client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
    assert found.coordinators[0].error_code == 0
    data = [InitializeStateData(topic_id, [PartitionData(0, 0, 0)])]
    made = await client.ask(InitializeShareGroupStateRequest(GROUP, data), 0)
    assert made.results[0].partitions[0].error_code == 0
    return topic_id


async def fetch(client: WireClient, topic_id: bytes, member: str) -> Any:
    topics = [FetchTopic(topic_id, [FetchPartition(0)])]
    request = ShareFetchRequest(GROUP, member, 0, 0, 1, 1_000_000, 500, 500, topics=topics)
    return await client.ask(request, 1)


async def test_acknowledged_records_do_not_come_back_after_kill_9(broker: BrokerProcess) -> None:
    client = await connect(port_of(broker))
    topic_id = await initialize(client)
    assert acquired_in(await fetch(client, topic_id, "a")) == [(0, 9, 1)]
    types = [ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, ACCEPT]
    batches = [AcknowledgementBatch(0, 5, types)]
    topics = [AcknowledgeTopic(topic_id, [AcknowledgePartition(0, batches)])]
    reply = await client.ask(ShareAcknowledgeRequest(GROUP, "a", 1, topics=topics), 1)
    assert reply.responses[0].partitions[0].error_code == 0
    broker.kill()
    broker.start()
    client = await connect(port_of(broker))
    assert acquired_in(await fetch(client, topic_id, "b")) == [(2, 3, 2), (6, 9, 1)]
    await client.stream.aclose()


async def test_a_closed_connection_gives_records_to_a_member_that_waits(broker: BrokerProcess) -> None:
    one, two = await connect(port_of(broker)), await connect(port_of(broker))
    topic_id = await initialize(one)
    assert acquired_in(await fetch(one, topic_id, "a")) == [(0, 9, 1)]
    topics = [FetchTopic(topic_id, [FetchPartition(0)])]
    request = ShareFetchRequest(GROUP, "b", 0, 20_000, 1, 1_000_000, 500, 500, topics=topics)
    sent = await two.send(request, 1)
    await one.stream.aclose()
    received, reply = await two.receive(78, 1)
    assert received == sent and acquired_in(reply) == [(0, 9, 2)]  # they count as delivered, as in Kafka 4.4
    await two.stream.aclose()
