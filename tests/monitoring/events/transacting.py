"""Open transactions of a running broker, and their timeout."""

from typing import Final

from trio.testing import MockClock, wait_all_tasks_blocked

from broker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.running import RunningBroker
from tests.support.wire import WireClient

TOPIC: Final = "events"
"""The topic of tests.support.produce.create_topic."""

CHECK_S: Final = 10.0
"""transaction.abort.timed.out.transaction.cleanup.interval.ms"""


async def begin(client: WireClient, transactional_id: str, *, timeout_ms: int, partitions: int = 1) -> int:
    """Begin a transaction on the first partitions of the topic; return its producer id, with epoch 0."""
    await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
    producer = await client.ask(InitProducerIdRequest(transactional_id, timeout_ms), 3)
    assert (producer.error_code, producer.producer_epoch) == (0, 0)
    topic = AddPartitionsToTxnTopic(TOPIC, list(range(partitions)))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )
    added = await client.ask(request, 3)
    [result] = added.results_by_topic_v3_and_below
    assert {each.partition_error_code for each in result.results_by_partition} == {0}
    return int(producer.producer_id)


async def time_out(broker: RunningBroker, clock: MockClock) -> None:
    """Let the coordinator find the transactions that exceed their timeout, by the system's clock, and abort
    them.
    """
    service = broker.server.delayed.transactions
    before = service.decisions["timed_out"]
    while service.decisions["timed_out"] == before:
        clock.jump(CHECK_S)
        await wait_all_tasks_blocked(0.01)
