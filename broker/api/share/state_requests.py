"""The common part of the share coordinator's APIs: one result for each partition of a request, and the
authorization. (Kafka: ShareCoordinatorService, ShareCoordinatorShard)

Requires CLUSTER_ACTION, or the admin role: only brokers and operators use these APIs. Each partition succeeds
or fails alone. What is written is committed before the response.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, StagedAppends, outcome_of
from broker.api.requests.services import ShareStateServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.share.persister import WrittenState
from broker.coordinator.share.states import SharePartitionKey
from broker.protocol.schema import Struct
from broker.security.acl.acl import Operation

LONGEST_NAME: Final = 8_000
"""Longest group id in characters; it must fit 32,767 bytes in a record's key."""


AT_ONCE: Final = 64
"""States that are written in one commit; ours."""


class PartitionResult(Protocol):
    """A partition of a response."""

    error_code: int
    error_message: str | None


class _Topic(Protocol):
    topic_id: bytes
    partitions: Any


Answer = Callable[[SharePartitionKey, Any, Any], WrittenState | None]
"""Handles one partition: its key, its part of the request and its result. Raises ApiError."""


def answer(
    group_id: str,
    topics: Iterable[_Topic],
    make: tuple[type, type, type],
    handle: Answer,
    context: RequestContext,
    services: ShareStateServices,
) -> Outcome:
    """Return the outcome of a request, in slices. `make` are the classes of its response, of a topic and of a
    partition in it.
    """
    return outcome_of(_answer(group_id, topics, make, handle, context, services))


def _answer(
    group_id: str,
    topics: Iterable[_Topic],
    make: tuple[type, type, type],
    handle: Answer,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    response_type, topic_type, partition_type = make
    is_allowed = services.security.permits(context, Operation.CLUSTER_ACTION)
    results: list[Struct] = []
    written: list[tuple[WrittenState, PartitionResult]] = []
    for topic in topics:
        partitions = []
        for asked in topic.partitions:
            result = partition_type(asked.partition)
            partitions.append(result)
            try:
                if not is_allowed:
                    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                key = SharePartitionKey(group_id, topic.topic_id, asked.partition)
                _check(key, services)
                staged = handle(key, asked, result)
                if staged is not None:
                    written.append((staged, result))
                if len(written) >= AT_ONCE:
                    services.persister.commit()
                    _settle(written, services)
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.message
            if not written:  # a client that goes away in a pause would leave them unsettled
                yield None
        results.append(topic_type(topic.topic_id, partitions))
    response = response_type(results)
    if not written:
        return Response(response)

    def settle() -> Outcome:
        _settle(written, services)
        return Response(response)

    return StagedAppends([staged.log.log for staged, _ in written], settle)


def _settle(written: list[tuple[WrittenState, PartitionResult]], services: ShareStateServices) -> None:
    for staged, result in written:
        result.error_code = services.persister.settle(staged)
    written.clear()


def _check(key: SharePartitionKey, services: ShareStateServices) -> None:
    if key.partition < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    if not key.group_id or len(key.group_id) > LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"The group id must have 1 to {LONGEST_NAME} characters")
    topic = services.partitions.by_id.get(key.topic_id)
    if topic is None or key.partition >= topic.count:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
