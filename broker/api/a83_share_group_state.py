"""The APIs of the share coordinator: the stored states of share partitions. (KIP-932; Kafka:
ShareCoordinatorService, ShareCoordinatorShard)

One result for each partition of a request. Requires CLUSTER_ACTION, or the admin role: only brokers and
operators use these APIs. Each partition succeeds or fails alone. What is written is committed before the
response.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, StagedAppends
from broker.api.requests.services import ShareStateServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.share.persister import READ_UNINITIALIZED, StateWrite, WrittenState
from broker.coordinator.share.states import NOT_SET, STORED, RecordState, SharePartitionKey, StateBatch
from broker.protocol.api_key import ApiKey
from broker.protocol.messages import delete_share_group_state as deletion
from broker.protocol.messages import initialize_share_group_state as initialization
from broker.protocol.messages import read_share_group_state as reading
from broker.protocol.messages import read_share_group_state_summary as summary
from broker.protocol.messages import write_share_group_state as writing
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


@api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def initialize(
    message: initialization.InitializeShareGroupStateRequest,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """InitializeShareGroupState: sets the start offset of a share group in a partition, with no records in
    flight.

    Version 0. A start offset of -1 leaves it to `share.auto.offset.reset`. Replaces an earlier state unless
    that has a higher state epoch (FENCED_STATE_EPOCH). (KIP-932)
    """

    def handle(key: SharePartitionKey, asked: Any, _result: Any) -> WrittenState:
        return services.persister.stage_initial(key, asked.state_epoch, asked.start_offset)

    make = (
        initialization.InitializeShareGroupStateResponse,
        initialization.InitializeStateResult,
        initialization.PartitionResult,
    )
    return (yield from _answer(message.group_id, message.topics, make, handle, context, services))


@api(ApiKey.READ_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def read(
    message: reading.ReadShareGroupStateRequest,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """ReadShareGroupState: returns the stored state of a share partition to its leader.

    Version 0. A higher leader epoch than the stored one is stored, and fences earlier leaders from then on
    (FENCED_LEADER_EPOCH). A share partition that is not initialized is an INVALID_REQUEST. (KIP-932)
    """

    def handle(key: SharePartitionKey, asked: Any, result: Any) -> WrittenState | None:
        state = services.persister.state(key)
        if state is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, READ_UNINITIALIZED)
        if asked.leader_epoch != -1 and state.leader_epoch > asked.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
        result.state_batches = [reading.StateBatch(*each) for each in state.batches]
        if asked.leader_epoch <= state.leader_epoch:
            return None
        return services.persister.stage_write(
            key, StateWrite(state.state_epoch, asked.leader_epoch, NOT_SET, (), state.stated)
        )

    make = (
        reading.ReadShareGroupStateResponse,
        reading.ReadStateResult,
        reading.PartitionResult,
    )
    return (yield from _answer(message.group_id, message.topics, make, handle, context, services))


@api(ApiKey.WRITE_SHARE_GROUP_STATE, versions=(0, 1), services=ShareStateServices)
def write(
    message: writing.WriteShareGroupStateRequest,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """WriteShareGroupState: changes the stored state of a share partition.

    Versions 0-1. FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH refuse a writer that is out of date; a share
    partition that is not initialized, and a range or state that no record can have, are an INVALID_REQUEST.
    The start offset never moves back. Version 1 states the number of records from it on whose delivery is
    complete (KIP-1226); otherwise the states have it. (KIP-932)
    """

    def handle(key: SharePartitionKey, asked: Any, _result: Any) -> WrittenState:
        batches = [_batch(each) for each in asked.state_batches]
        change = StateWrite(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            batches,
            max(asked.delivery_complete_count, NOT_SET),
        )
        return services.persister.stage_write(key, change)

    make = (
        writing.WriteShareGroupStateResponse,
        writing.WriteStateResult,
        writing.PartitionResult,
    )
    return (yield from _answer(message.group_id, message.topics, make, handle, context, services))


@api(ApiKey.DELETE_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def delete(
    message: deletion.DeleteShareGroupStateRequest,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """DeleteShareGroupState: deletes the stored state of a share partition.

    Version 0. Without a state, nothing happens. (KIP-932)
    """

    def handle(key: SharePartitionKey, _asked: Any, _result: Any) -> WrittenState | None:
        if services.persister.state(key) is None:
            return None
        return services.persister.stage_deletion(key)

    make = (
        deletion.DeleteShareGroupStateResponse,
        deletion.DeleteStateResult,
        deletion.PartitionResult,
    )
    return (yield from _answer(message.group_id, message.topics, make, handle, context, services))


@api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions=(0, 1), services=ShareStateServices)
def read_summary(
    message: summary.ReadShareGroupStateSummaryRequest,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """ReadShareGroupStateSummary: returns the start offset of a share group in a partition, and its epochs.

    Versions 0-1. A share partition that is not initialized has start offset -1 and state epoch 0. Version 1
    has the number of records from the start offset on whose delivery is complete. (KIP-932, KIP-1226)
    """

    def handle(key: SharePartitionKey, _asked: Any, result: Any) -> None:
        found = services.persister.summary(*key)
        result.start_offset = NOT_SET
        if found is not None:
            result.start_offset, result.state_epoch, result.leader_epoch = found[:3]
            result.delivery_complete_count = found.complete

    make = (
        summary.ReadShareGroupStateSummaryResponse,
        summary.ReadStateSummaryResult,
        summary.PartitionResult,
    )
    return (yield from _answer(message.group_id, message.topics, make, handle, context, services))


def _answer(
    group_id: str,
    topics: Iterable[_Topic],
    make: tuple[type, type, type],
    handle: Answer,
    context: RequestContext,
    services: ShareStateServices,
) -> Slices[Outcome]:
    """Return the outcome of a request. `make` are the classes of its response, of a topic and of a partition
    in it.
    """
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


def _batch(asked: Any) -> StateBatch:
    first, last = asked.first_offset, asked.last_offset
    if not 0 <= first <= last or asked.delivery_state not in STORED or asked.delivery_count < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid state batch from {first} to {last}")
    return StateBatch(first, last, RecordState(asked.delivery_state), asked.delivery_count)
