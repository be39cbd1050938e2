"""Settings of dead letter queues that are changed while the broker runs; and the task that writes them."""

from pathlib import Path
from typing import Any

from trio.testing import wait_all_tasks_blocked

from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from broker.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from broker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.share.consumers import acquired_in
from tests.coordinator.share.letters import configure
from tests.coordinator.share.members import REJECT
from tests.support.hostile import until
from tests.support.live import alter, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

QUEUE = "dead.events"
FAMILY = "kafka_server_sharegroupmetrics_deadletterqueue"


async def reject(client: WireClient, topic_id: bytes, member: str, offset: int) -> None:
    """A new member acquires everything, rejects a record, and releases the others."""
    topics = [FetchTopic(topic_id, [FetchPartition(0)])]
    fetch = ShareFetchRequest("readers", member, 0, 0, 1, 1_000_000, 500, 500, topics=topics)
    acquired: Any = acquired_in(await client.ask(fetch, 1))
    assert acquired
    partition = AcknowledgePartition(0, [AcknowledgementBatch(offset, offset, [REJECT])])
    request = ShareAcknowledgeRequest("readers", member, -1, topics=[AcknowledgeTopic(topic_id, [partition])])
    reply = await client.ask(request, 1)
    assert reply.responses[0].partitions[0].error_code == 0


async def start(broker: RunningBroker, client: WireClient) -> bytes:
    """The group "readers" starts to read a topic with five records, and has a dead letter queue. Returns the
    topic's id.
    """
    server = broker.server
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    await client.ask(produce_request(batch_of(*[b"value"] * 5)), PRODUCE_VERSION)
    topic_id = server.partitions.by_name["events"].topic_id
    await server.delayed.share.persister.initialize("readers", topic_id, 0, 0)
    await configure(server, QUEUE)  # type: ignore[arg-type]
    return topic_id


async def heartbeat(client: WireClient, epoch: int) -> None:
    request = ShareGroupHeartbeatRequest("readers", "m", epoch, None, ["events"] if epoch == 0 else None)
    assert (await client.ask(request, 1)).error_code == 0


@takes_effect("errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix")
async def test_the_prefix_and_the_creation_of_queues(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        server, client = broker.server, await broker.connect()
        topic_id = await start(broker, client)
        await reject(client, topic_id, "a", 0)
        await until(lambda: server.delayed.share.dead_letters.next_deadline() is None)
        assert QUEUE not in server.control.image.topics
        await alter(broker, errors_deadletterqueue_auto_create_topics_enable="true")
        await reject(client, topic_id, "b", 1)
        await until(lambda: server.delayed.share.dead_letters.next_deadline() is None)
        assert QUEUE not in server.control.image.topics
        await alter(broker, errors_deadletterqueue_topic_name_prefix="dead.")
        await reject(client, topic_id, "c", 2)
        await until(lambda: QUEUE in server.partitions.by_name)
        await wait_all_tasks_blocked()
        log = server.partitions.log(QUEUE, 0)
        assert log is not None and log.high_watermark == 1
        page = server.server_views.prometheus.page()
        assert f'{FAMILY}recordcount_total{{group="readers"}} 1\n' in page
        assert f'{FAMILY}totalproducerequests_total{{group="readers"}} 1\n' in page
        assert f'{FAMILY}failedproducerequests_total{{group="readers"}} 0\n' in page


async def test_a_group_that_is_deleted_is_on_no_page(tmp_path: Path) -> None:
    settings = {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "errors.deadletterqueue.topic.name.prefix": "dead.",
    }
    async with running_broker(tmp_path, *(f"{key}={value}" for key, value in settings.items())) as broker:
        server, client = broker.server, await broker.connect()
        topic_id = await start(broker, client)
        await client.ask(FindCoordinatorRequest("", 0, ["readers"]), 4)
        await heartbeat(client, 0)
        await reject(client, topic_id, "a", 0)
        await until(lambda: QUEUE in server.partitions.by_name)
        await wait_all_tasks_blocked()
        assert f'{FAMILY}recordcount_total{{group="readers"}} 1\n' in server.server_views.prometheus.page()
        await heartbeat(client, -1)
        assert (await client.ask(DeleteGroupsRequest(["readers"]), 2)).results[0].error_code == 0
        page = server.server_views.prometheus.page()
        assert f"{FAMILY}recordcount_total" in page and f"{FAMILY}recordcount_total{{" not in page
