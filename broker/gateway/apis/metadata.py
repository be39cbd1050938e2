"""Metadata and FindCoordinator at the gateway: the upstream cluster creates topics, and finds share
coordinators, only for clients with the role for it.

A request is forwarded untouched unless it could create a topic that its client may not: any topic without the
role that CreateTopics needs, or a topic of Weir. The upstream broker is asked for these without creating
them, as if its `auto.create.topics.enable` were off. Before version 4 a request cannot say so, and is sent in
version 4. The responses to these are collected whole; `LARGE_AT_ONCE` bounds how many large ones.

Share coordinators are for brokers; a FindCoordinator for others is forwarded untouched.
"""

from collections.abc import Awaitable
from copy import copy
from functools import partial
from typing import Final

import trio

from broker.api.a10_find_coordinator import SHARE, SHARE_SINCE
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.security.client_security import CREATES_TOPICS, FOR_BROKERS
from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import SliceTimer
from broker.gateway.apis.asking import (
    Addresses,
    Handle,
    Work,
    ask,
    decides,
    forward_readdressed,
    in_own_task,
    in_slices_too,
    may_name_reserved,
)
from broker.gateway.apis.roles import Roles, refused
from broker.gateway.responses import AT_ONCE, readdress
from broker.gateway.routes import Answers, AnswersVersion
from broker.metadata.image import is_reserved
from broker.network.connection.channel import Channel
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

LARGE_AT_ONCE: Final = 2
"""Requests of more than AT_ONCE bytes that are asked at the same time; the others wait. Each can have a
response of `apis.asking.MAX_ASKED_BYTES`, which is held twice while its addresses are replaced. Ours.
"""

SAYS_SINCE: Final = 4
"""The first version that says whether topics may be created."""


def answers_metadata(roles: Roles) -> AnswersVersion:
    """Return the answer for all versions: whether a request could create what its client may not."""

    def of_version(version: int) -> Answers:
        def may_create(channel: Channel) -> bool:
            return roles.of(channel) >= CREATES_TOPICS

        def is_ours(message: MetadataRequest, channel: Channel) -> bool:
            if not _creates(message, version):
                return False
            may = may_create(channel)
            return any(_is_forbidden(topic, may_create=may) for topic in message.topics or ())

        return decides(
            ApiKey.METADATA,
            version,
            is_ours,
            lambda frame, channel: not may_create(channel) or may_name_reserved(frame),
        )

    return of_version


def metadata_handler(roles: Roles, addresses: Addresses) -> Handle:
    """Return the handler. `addresses` are those that a listener advertises."""
    large = trio.Semaphore(LARGE_AT_ONCE)

    def handle(
        message: MetadataRequest, context: RequestContext, _services: object
    ) -> Outcome | Awaitable[Outcome]:
        may_create = roles.of(context.connection) >= CREATES_TOPICS
        describe = partial(_describe, message, context, addresses, may_create=may_create)
        if context.size <= AT_ONCE:
            return in_own_task(describe)
        return in_own_task(partial(_in_turn, large, describe))

    return handle


async def _in_turn(turns: trio.Semaphore, work: Work) -> Outcome:
    async with turns:
        return await work()


def _creates(message: MetadataRequest, version: int) -> bool:
    return version < SAYS_SINCE or message.allow_auto_topic_creation


def _is_forbidden(topic: MetadataRequestTopic, *, may_create: bool) -> bool:
    return topic.name is not None and (not may_create or is_reserved(topic.name))


async def _describe(
    message: MetadataRequest, context: RequestContext, addresses: Addresses, *, may_create: bool
) -> Outcome:
    version = context.api_version
    forbidden: list[MetadataRequestTopic] = []
    others: list[MetadataRequestTopic] = []
    if _creates(message, version):
        timer = SliceTimer()
        for topic in message.topics or ():
            (forbidden if _is_forbidden(topic, may_create=may_create) else others).append(topic)
            if timer.is_over():
                await trio.lowlevel.checkpoint()
    if not forbidden:
        return await forward_readdressed(context, message, addresses)
    only = copy(message)
    only.topics, only.allow_auto_topic_creation = forbidden, False
    if not others and version >= SAYS_SINCE:
        return await forward_readdressed(context, only, addresses)
    reply = await ask(context, only, max(version, SAYS_SINCE))
    if others:
        message.topics = others
        reply.topics += (await ask(context, message)).topics
    await run_slices(readdress(reply, version, partial(addresses, context.connection.listener)))
    return in_slices_too(Response(reply))


def answers_find_coordinator(roles: Roles) -> AnswersVersion:
    """Return the answer for all versions: whether it is a request of brokers by a client that is none."""

    def of_version(version: int) -> Answers | None:
        if version < SHARE_SINCE:
            return None
        return decides(
            ApiKey.FIND_COORDINATOR,
            version,
            lambda message, _channel: message.key_type == SHARE,
            lambda _frame, channel: roles.of(channel) < FOR_BROKERS,
        )

    return of_version


def find_coordinator_handler(roles: Roles, addresses: Addresses) -> Handle:
    """Return the handler. `addresses` are those that a listener advertises."""

    def handle(
        message: FindCoordinatorRequest, context: RequestContext, _services: object
    ) -> Outcome | Awaitable[Outcome]:
        reason = roles.lacks(context.connection, FOR_BROKERS)
        if message.key_type == SHARE and reason:
            return refused(message, context, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, reason)
        return in_own_task(partial(forward_readdressed, context, message, addresses))

    return handle
