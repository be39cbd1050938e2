"""The gateway's own requests to upstream nodes. (Kafka: NetworkClient, KafkaAdminClient)"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import trio

from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.controller.topics import ONLY_BY_WEIR
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, ReconnectBackoff, UpstreamError, WeirUpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.metadata.image import OUR_TOPICS
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

METADATA_VERSIONS: Final = 9, 12
"""They name topics; one of them is in Kafka 2.4 and later. From 10 on, topics have ids."""

CREATE_TIMEOUT_MS: Final = 10_000


class UpstreamClient:
    """One connection for each node and lane, opened by the first request and again after it has ended.

    A node serves the requests of one connection one after the other. So a request that waits at the node,
    such as a Fetch with a wait time, should have a lane of its own.
    """

    def __init__(self, config: UpstreamConfig, security: UpstreamSecurity, cluster: UpstreamCluster) -> None:
        self._config = config
        self._security = security
        self._cluster = cluster
        self._nursery: trio.Nursery | None = None
        self._targets: dict[tuple[Address, str], _Target] = {}

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the connections' tasks until cancelled; `request` works after `started`. All connections close
        with it, and requests fail with CLOSED.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def request(
        self,
        node_id: int | None,
        message: Any,
        version: int | None = None,
        *,
        at_least: int = 0,
        at_most: int | None = None,
        lane: str = "",
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request and return the response: to a node, or with None to any node that can be reached.
        Without `version`, uses the newest version that Weir and the node know, from `at_least` up to
        `at_most`; without `timeout_ms`, waits for request.timeout.ms.

        Raises UpstreamError, and leaves error codes within the response to the caller. Does not send a
        request twice. If cancelled, the request may be sent; its response is discarded.
        """
        if node_id is None:
            connection = await self._any(lane)
        else:
            address = self._cluster.address_of(node_id)
            if address is None:
                raise UpstreamError(Reason.NODE, f"no upstream node has the id {node_id}")
            connection = await self._target(address, lane).open()
        return await connection.request(
            message, version, at_least=at_least, at_most=at_most, timeout_ms=timeout_ms
        )

    async def _any(self, lane: str) -> UpstreamConnection:
        """Return an open connection if there is one, else try one node after the other."""
        for (_, other), target in self._targets.items():
            if other == lane and target.is_open:
                return await target.open()
        tried: set[Address] = set()
        error = None
        while (address := self._cluster.bootstrap_address()) not in tried:
            tried.add(address)
            try:
                return await self._target(address, lane).open()
            except UpstreamError as failed:
                error = failed
        assert error is not None
        raise error

    def _target(self, address: Address, lane: str) -> "_Target":
        key = (address, lane)
        target = self._targets.get(key)
        if target is None:
            self._forget_nodes()
            target = _Target(partial(self._start, address), ReconnectBackoff(self._config))
            self._targets[key] = target
        return target

    def _forget_nodes(self) -> None:
        """Forget addresses that no node has any more, and close their connections."""
        for key in [each for each in self._targets if not self._cluster.knows(each[0])]:
            self._targets.pop(key).retire()

    def _start(self, address: Address) -> UpstreamConnection:
        if self._nursery is None:
            raise UpstreamError(Reason.CLOSED, f"{address}: the gateway is not running")
        connection = UpstreamConnection(address, self._config, self._security)
        self._nursery.start_soon(connection.run, name=f"upstream {address}")
        return connection


class _Target:
    """The connection to one address in one lane."""

    def __init__(self, start: Callable[[], UpstreamConnection], backoff: ReconnectBackoff) -> None:
        self._start = start
        self._backoff = backoff
        self._retry_at = 0.0
        self._connection: UpstreamConnection | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_usable

    def retire(self) -> None:
        """Close the connection after its last response."""
        if self._connection is not None:
            self._connection.retire()

    async def open(self) -> UpstreamConnection:
        """Return an open connection. After a failure, waits for the backoff first. Raises UpstreamError."""
        if not self.is_open:
            await trio.sleep_until(self._retry_at)
        connection = self._connection
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.retire()
            self._connection = connection = self._start()
        try:
            await connection.wait_open()
        except UpstreamError as error:
            if connection is self._connection:
                self._connection = None
                self._retry_at = trio.current_time() + self._backoff.after_s(error)
            raise
        self._backoff.reset()
        return connection


async def describe_topic(client: UpstreamClient, topic: str, lane: str = "") -> Any:
    """Return what Metadata says of a topic, which it does not create. Raises UpstreamError, as a
    WeirUpstreamError for a topic of Weir that the cluster keeps for itself: Kafka knows no such topic.
    """
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    at_least, at_most = METADATA_VERSIONS
    response: MetadataResponse = await client.request(
        None, request, at_least=at_least, at_most=at_most, lane=lane
    )
    if not response.topics:
        raise UpstreamError(Reason.PROTOCOL, f"Metadata of {topic}: the response has no topic")
    found = response.topics[0]
    if found.is_internal and topic.startswith(OUR_TOPICS):
        raise WeirUpstreamError
    return found


async def create_topic(
    client: UpstreamClient,
    topic: str,
    partitions: int,
    configs: Iterable[tuple[str, str | None]],
    lane: str = "",
) -> int:
    """Create a topic with the cluster's default replication factor, and return the error code. Raises
    UpstreamError, as `describe_topic` does.
    """
    settings = [CreatableTopicConfig(name, value) for name, value in configs]
    request = CreateTopicsRequest(
        [CreatableTopic(topic, partitions, -1, configs=settings)], CREATE_TIMEOUT_MS
    )
    response = await client.request(None, request, lane=lane)
    if not response.topics:
        raise UpstreamError(Reason.PROTOCOL, f"CreateTopics of {topic}: the response has no topic")
    created = response.topics[0]
    if created.error_message == ONLY_BY_WEIR:
        raise WeirUpstreamError
    return int(created.error_code)
