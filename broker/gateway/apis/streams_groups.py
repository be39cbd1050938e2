"""StreamsGroupHeartbeat at the gateway: the upstream cluster creates the internal topics of an application
only for clients with the role for it; where the gateway logs clients in, it does so for the gateway.

A request is forwarded untouched unless its topology has an internal topic that its client may not create: any
without the role that CreateTopics needs, or a topic of Weir. Such a member cannot join, even if the topics
exist.
"""

from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Final

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.security.client_security import CREATES_TOPICS
from broker.common.errors import ErrorCode
from broker.gateway.apis.asking import Handle, decides, forward, in_own_task, may_name_reserved
from broker.gateway.apis.roles import Roles
from broker.gateway.channel import GatewayChannel
from broker.gateway.client_racks import fill
from broker.gateway.routes import Answers, AnswersVersion
from broker.metadata.image import is_reserved
from broker.network.connection.channel import Channel
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

DENIED: Final = "The client may not create the internal topics of its topology."


def answers_heartbeat(roles: Roles) -> AnswersVersion:
    """Return the answer for all versions: whether a request could create what its client may not."""

    def of_version(version: int) -> Answers:
        def may_create(channel: Channel) -> bool:
            return roles.of(channel) >= CREATES_TOPICS

        return decides(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            version,
            lambda message, channel: _is_forbidden(message, may_create=may_create(channel)),
            lambda frame, channel: not may_create(channel) or may_name_reserved(frame),
        )

    return of_version


def heartbeat_handler(roles: Roles) -> Handle:
    def handle(
        message: StreamsGroupHeartbeatRequest, context: RequestContext, _services: object
    ) -> Outcome | Awaitable[Outcome]:
        if _is_forbidden(message, may_create=roles.of(context.connection) >= CREATES_TOPICS):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return Response(StreamsGroupHeartbeatResponse(error_code=code, error_message=DENIED, status=[]))
        assert isinstance(context.connection, GatewayChannel)
        fill(message, context.connection.client.rack)
        return in_own_task(partial(forward, context, message))

    return handle


def _is_forbidden(message: StreamsGroupHeartbeatRequest, *, may_create: bool) -> bool:
    return any(not may_create or is_reserved(name) for name in _internal_topics(message))


def _internal_topics(message: StreamsGroupHeartbeatRequest) -> Iterator[str]:
    for subtopology in () if message.topology is None else message.topology.subtopologies:
        for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
            for topic in topics:
                yield topic.name
