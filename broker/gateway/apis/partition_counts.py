"""The numbers of partitions of the upstream cluster's topics, for the controller mutation quota.

Asked with the gateway's own credentials, and kept for a second: a client that is refused tries again. Where
the cluster does not answer, a topic counts as one partition, and one log line says so.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from broker.api.requests.pacing import pieces
from broker.common.clock import Clock
from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType, TopicRef
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

KEPT_MS: Final = 1_000
DEFAULT_KEPT_MS: Final = 60_000
MAX_KEPT: Final = 10_000
ASKED_AT_ONCE: Final = 500
"""Topics of one Metadata request; decoding its response takes a few milliseconds."""

ASSUMED: Final = 1
NUM_PARTITIONS: Final = "num.partitions"
BY_ID_VERSION: Final = 12
"""The first version of Metadata that finds topics by their ids. (KIP-516)"""

LANE: Final = "partition-counts"


class PartitionCounts:
    """`nodes` returns the ids of the present upstream nodes."""

    def __init__(self, client: UpstreamClient, nodes: Callable[[], Iterable[int]], clock: Clock) -> None:
        self._client = client
        self._nodes = nodes
        self._clock = clock
        self._known: dict[TopicRef, tuple[int, int | None]] = {}
        self._default = ASSUMED
        self._default_until_ms = 0
        self._is_failing = False

    async def of(self, topics: Collection[TopicRef]) -> dict[TopicRef, int | None]:
        """Return the number of partitions of each topic, None for a topic that does not exist."""
        now_ms = self._clock.ms()
        found = {
            topic: known[1]
            for topic in topics
            if (known := self._known.get(topic)) is not None and now_ms < known[0]
        }
        missing = [topic for topic in dict.fromkeys(topics) if topic not in found]
        if missing:
            for by_id in (False, True):
                wanted = [topic for topic in missing if (topic.topic_id is not None) is by_id]
                if wanted:
                    found |= await self._ask(wanted, BY_ID_VERSION if by_id else None)
        return found

    async def default(self) -> int:
        """Return the number of partitions of a topic that is created without one."""
        now_ms = self._clock.ms()
        if now_ms >= self._default_until_ms:
            try:
                self._default = await self._ask_default()
            except (UpstreamError, ValueError) as error:
                self._note(error)
            else:
                self._note(None)
            self._default_until_ms = now_ms + DEFAULT_KEPT_MS
        return self._default

    def forget(self, topics: Collection[TopicRef]) -> None:
        """Ask again for topics that a request has changed."""
        for topic in topics:
            self._known.pop(topic, None)

    async def _ask(self, topics: Sequence[TopicRef], version: int | None) -> dict[TopicRef, int | None]:
        counts: dict[TopicRef, int | None] = {}
        for some in pieces(topics, ASKED_AT_ONCE):
            try:
                counts |= await self._ask_some(some, version)
            except UpstreamError as error:
                self._note(error)
                counts |= dict.fromkeys(some, ASSUMED)
            else:
                self._note(None)
        return counts

    async def _ask_some(self, topics: Sequence[TopicRef], version: int | None) -> dict[TopicRef, int | None]:
        wanted = [MetadataRequestTopic(each.topic_id or ZERO_UUID, each.name) for each in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        response = await self._client.request(None, request, version, lane=LANE)
        counts: dict[TopicRef, int | None] = dict.fromkeys(topics)
        for topic in response.topics:
            ref = TopicRef(topic.name) if version is None else TopicRef(None, topic.topic_id)
            if ref in counts and topic.error_code == ErrorCode.NONE:
                counts[ref] = len(topic.partitions)
        if len(self._known) + len(counts) > MAX_KEPT:
            self._known.clear()
        until_ms = self._clock.ms() + KEPT_MS
        self._known |= {ref: (until_ms, count) for ref, count in counts.items()}
        return counts

    async def _ask_default(self) -> int:
        """Return num.partitions of a broker. Raises UpstreamError, ValueError."""
        node_id = min(self._nodes(), default=None)
        if node_id is None:
            raise UpstreamError(Reason.NODE, "no upstream node is known")
        resource = DescribeConfigsResource(ResourceType.BROKER, str(node_id), [NUM_PARTITIONS])
        response = await self._client.request(node_id, DescribeConfigsRequest([resource]), lane=LANE)
        for result in response.results:
            for config in result.configs:
                if config.name == NUM_PARTITIONS and config.value is not None:
                    return int(config.value)
        raise UpstreamError(Reason.PROTOCOL, f"upstream node {node_id} does not report {NUM_PARTITIONS}")

    def _note(self, error: Exception | None) -> None:
        """Log the first failure, and the end of failing."""
        if error is not None and not self._is_failing:
            logger.warning(
                "the upstream cluster does not report the number of partitions: the controller mutation "
                "quota counts one for each topic",
                extra={"reason": str(error)},
            )
        elif error is None and self._is_failing:
            logger.info("the upstream cluster reports the number of partitions again")
        self._is_failing = error is not None
