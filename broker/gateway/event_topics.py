"""Writes the gateway's events to topics of the upstream cluster, where the Spark pipeline reads them.

`monitoring.events.writer` calls `append` once a second. A topic is created when it has records and does not
exist. A record's key decides its partition; records without a key go to the partitions in turn. Batches are
sent with acks=1; a batch that its leader refuses is tried once more with fresh metadata. What is certainly
not written and may be a second later (a new topic has no leader yet) waits, up to KEPT_BYTES; everything else
is dropped and counted. Events never hold back requests. Where the upstream cluster is Weir itself, it has
events of the same requests in these topics, and the gateway writes none.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from broker.api.requests.automatic_topics import automatic_topic
from broker.common.errors import ErrorCode
from broker.config.table import BrokerConfig
from broker.gateway.upstream.client import UpstreamClient, create_topic, describe_topic
from broker.gateway.upstream.errors import Reason, UpstreamError, WeirUpstreamError, name_of
from broker.partitions.event_log import EventBuffer, EventPartitions, Waiting, codec_of
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

logger = logging.getLogger(__name__)

PRODUCE_VERSION: Final = 9
"""The last version that names topics and whose errors carry no addresses."""

FOUND_WITHIN: Final = 20
FOUND_PAUSE_S: Final = 0.1
"""How often, and how long in between, a new topic is looked for: brokers learn of it one after the other."""

NOT_YET: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)

LATER: Final = frozenset(
    {
        *NOT_YET,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of a batch that is not written, and may be in a second."""

UNSENT: Final = frozenset(
    {Reason.DNS, Reason.REFUSED, Reason.TLS, Reason.CREDENTIALS, Reason.NODE, Reason.CLUSTER}
)
"""Failures before a request is sent. After the others, a batch may be written, and would be twice."""

KEPT_BYTES: Final = 1024 * 1024
"""Records of a topic that wait for the next second; ours."""

AT_ONCE: Final = 1_000
"""Records between two requests: their batches are built in about a millisecond."""

PRODUCE_TIMEOUT_MS: Final = 10_000
LANE: Final = "events"


class UpstreamTopics(EventBuffer):
    """The buffers of all event topics, and their partitions' leaders as far as they are known. `errors` has
    the topics whose last records could not be written, with the reason.
    """

    def __init__(self, client: UpstreamClient, config: Callable[[], BrokerConfig]) -> None:
        super().__init__()
        self._client = client
        self._config = config
        self._leaders: dict[str, dict[int, int | None]] = {}
        self._partitions = EventPartitions()
        self.errors: dict[str, str] = {}
        self._are_upstreams = False

    async def append(self, _wall_ms: int) -> None:
        """Write all buffered records. If cancelled, AT_ONCE records of one topic can be lost."""
        try:
            if not self._are_upstreams:
                await self._append_all()
        except WeirUpstreamError as error:
            self._are_upstreams = True
            logger.info("the gateway writes no events", extra={"reason": str(error)})
        if self._are_upstreams:
            for topic in self.topics:
                self.take(topic)

    async def _append_all(self) -> None:
        for topic, waiting in list(self.topics.items()):  # others offer records to new topics meanwhile
            if waiting.records:
                error = await self._append(topic, waiting)
                while waiting.records and error is None:
                    error = await self._append(topic, waiting)
                self._note(topic, error)

    async def _append(self, topic: str, waiting: Waiting) -> UpstreamError | None:
        """Write the oldest records of a topic, and return the last failure."""
        records = self.take(topic, AT_ONCE)
        error: UpstreamError | None = None
        later: list[NewRecord] = []
        try:
            batches = [
                *self._partitions.divide(records, len(self._leaders.get(topic) or await self._find(topic)))
            ]
        except WeirUpstreamError:
            raise
        except UpstreamError as failed:
            error, batches = failed, []
            if _may_be_written_later(failed):
                later = records
            else:
                waiting.dropped += len(records)
        for partition, batch in batches:
            if error is not None and not isinstance(error, TopicError):
                # A node or the cluster cannot be reached: the other batches would wait as long.
                later += batch
                continue
            failure = await self._write(topic, partition, batch)
            error = failure or error
            if failure is None:
                waiting.written += len(batch)
            elif _may_be_written_later(failure):
                later += batch
            else:
                waiting.dropped += len(batch)
        if later:
            self.put_back(topic, later, KEPT_BYTES)
        return error

    async def _write(self, topic: str, partition: int, batch: list[NewRecord]) -> UpstreamError | None:
        """Write one batch, and return why it is not written."""
        error: UpstreamError | None = None
        for _ in range(2):
            try:
                code = await self._produce(topic, partition, batch)
            except WeirUpstreamError:
                raise
            except UpstreamError as failed:
                failure = failed
            else:
                if not code:
                    return None
                failure = TopicError("Produce", f"{topic}-{partition}", code)
            # A batch that may be written by the first request is not written later.
            if error is None or _may_be_written_later(error):
                error = failure
            self._leaders.pop(topic, None)
        return error

    async def _produce(self, topic: str, partition: int, batch: list[NewRecord]) -> int:
        """Send one batch to the leader, and return the error code. Raises UpstreamError."""
        leader = (self._leaders.get(topic) or await self._find(topic)).get(partition)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        data = PartitionProduceData(partition, build_batch(batch, codec=codec_of(batch)))
        request = ProduceRequest(
            acks=1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(topic, partition_data=[data])],
        )
        response = await self._client.request(leader, request, PRODUCE_VERSION, lane=LANE)
        for answered in response.responses:
            for each in answered.partition_responses:
                return int(each.error_code)
        raise UpstreamError(Reason.PROTOCOL, f"Produce of {topic}: the response has no partition")

    async def _find(self, topic: str) -> dict[int, int | None]:
        """Return the leader of each partition, if it has one, and create the topic if it is missing. Raises
        UpstreamError.
        """
        found = await describe_topic(self._client, topic, LANE)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create(topic)
            for _ in range(FOUND_WITHIN):
                found = await describe_topic(self._client, topic, LANE)
                if found.error_code not in NOT_YET:
                    break
                await trio.sleep(FOUND_PAUSE_S)
        if found.error_code:
            raise TopicError("Metadata", topic, found.error_code)
        leaders = {
            each.partition_index: each.leader_id if each.leader_id >= 0 else None for each in found.partitions
        }
        if not any(leader is not None for leader in leaders.values()):
            raise TopicError("Metadata", topic, ErrorCode.LEADER_NOT_AVAILABLE)
        self._leaders[topic] = leaders
        return leaders

    async def _create(self, topic: str) -> None:
        wanted = automatic_topic(topic, self._config())
        code = await create_topic(self._client, topic, wanted.partitions, wanted.configs, LANE)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise TopicError("CreateTopics", topic, code)

    def _note(self, topic: str, error: UpstreamError | None) -> None:
        """Log the first failure of a topic, and the end of failing."""
        if error is not None:
            if topic not in self.errors:
                logger.warning("cannot write events upstream", extra={"topic": topic, "reason": str(error)})
            self.errors[topic] = str(error)
        elif self.errors.pop(topic, None) is not None:
            logger.info("events are written upstream again", extra={"topic": topic})


class TopicError(UpstreamError):
    """An error code of the cluster for a topic or a partition."""

    def __init__(self, api: str, topic: str, code: int) -> None:
        super().__init__(Reason.PROTOCOL, f"{api} of {topic}: {name_of(code)}")
        self.code = code


def _may_be_written_later(error: UpstreamError) -> bool:
    """Whether the records of a failed request are certainly not written and may be in a second."""
    return error.code in LATER if isinstance(error, TopicError) else error.reason in UNSENT
