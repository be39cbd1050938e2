"""The common part of ShareFetch and ShareAcknowledge: the acknowledgements in a request, and the end of a
session. (Kafka: KafkaApis.handleAcknowledgements)
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, StagedAppends
from broker.api.requests.services import ShareServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.share.share_partition import RENEW, Acknowledgement, are_known
from broker.coordinator.share.share_partitions import StagedChange
from broker.coordinator.share.states import SharePartitionKey
from broker.security.acl.acl import Operation

MOST_PARTITIONS: Final = 2_000
"""Partitions that one request can name, as many as a session has; ours."""

MOST_BATCHES: Final = 2_000
"""Batches of acknowledgements that one request can have for a partition; ours. Kafka's clients send one for
records that follow each other."""

NO_RENEWALS: Final = "The group's share.renew.acknowledge.enable is false"

AT_ONCE: Final = 64
"""Partitions whose changes are written in one commit; ours."""


class Failure:
    """The reason why a partition is not fetched, or its acknowledgement refused; NONE for a success."""

    __slots__ = ("code", "message")

    def __init__(self, code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> None:
        self.code = code
        self.message = message


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class _Partition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class _Topic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class _Named(Protocol):
    @property
    def partitions(self) -> Sequence[object]: ...


def is_too_large(topics: Sequence[_Named]) -> bool:
    """Return whether a request names more partitions than a session can have."""
    if len(topics) > MOST_PARTITIONS:
        return True
    return sum(len(topic.partitions) for topic in topics) > MOST_PARTITIONS


class Acknowledging:
    """The acknowledgements of one request. `results` has one for each partition of the request. `renews`: it
    may renew locks. (KIP-1222)
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        context: RequestContext,
        services: ShareServices,
        *,
        renews: bool,
    ) -> None:
        self._renews = renews
        self.results: dict[SharePartitionKey, Failure] = {}
        self._group_id = group_id
        self._member_id = member_id
        self._context = context
        self._services = services
        self._staged: list[StagedChange] = []

    def acknowledge(self, topics: Iterable[_Topic]) -> Slices[None]:
        """Begin the changes, in slices. Each partition succeeds or fails alone."""
        for topic in topics:
            for partition in topic.partitions:
                batches = partition.acknowledgement_batches
                key = SharePartitionKey(self._group_id, topic.topic_id, partition.partition_index)
                self.results[key] = self._begin(key, batches)
                self._settle_some()
                if not self._staged:  # a client that goes away in a pause would leave them unsettled
                    yield None

    def release(self, keys: Iterable[SharePartitionKey]) -> Slices[None]:
        """Begin to release what the member holds besides, in slices."""
        for key in keys:
            staged = self._services.share.release(self._member_id, key)
            if staged is not None:
                self._staged.append(staged)
                self._settle_some()
            if not self._staged:
                yield None

    def then(self, respond: Callable[[], Outcome]) -> Outcome:
        """Return the outcome of `respond`, after everything that has begun is stored."""
        logs = [each.written.log.log for each in self._staged if each.written is not None]

        def settle() -> Outcome:
            self._note((each.key, self._services.share.settle(each)) for each in self._staged)
            return respond()

        return StagedAppends(logs, settle) if logs else settle()

    def _settle_some(self) -> None:
        if len(self._staged) >= AT_ONCE:
            self._note(self._services.share.settle_now(self._staged))
            self._staged = []

    def _note(self, errors: Iterable[tuple[SharePartitionKey, ErrorCode]]) -> None:
        for key, error in errors:
            if error and key in self.results:
                self.results[key] = Failure(error)

    def _begin(self, key: SharePartitionKey, batches: Sequence[_Batch]) -> Failure:
        services = self._services
        topic = services.partitions.by_id.get(key.topic_id)
        if topic is None:
            return Failure(ErrorCode.UNKNOWN_TOPIC_ID)
        if len(batches) > MOST_BATCHES or not _are_valid(batches, renews=self._renews):
            return Failure(ErrorCode.INVALID_REQUEST)
        if not services.security.allows_topic(self._context, Operation.READ, topic.name):
            return Failure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not 0 <= key.partition < topic.count:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not batches:
            return Failure()
        share = services.share.get(key)
        if share is None:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._renews and not services.share.settings_of(self._group_id).renews and _renew(batches):
            return Failure(ErrorCode.INVALID_RECORD_STATE, NO_RENEWALS)
        acknowledgements = [
            Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches
        ]
        try:
            renewed = services.share.new_lock(key, self._member_id) if self._renews else None
            change = share.acknowledge(self._member_id, acknowledgements, renewed)
            if renewed is not None:
                services.share.hold(renewed)
            self._staged.append(services.share.stage(key, share, change))
        except ApiError as error:
            return Failure(error.code, error.message)
        return Failure()


def _renew(batches: Sequence[_Batch]) -> bool:
    """Return whether a batch renews locks."""
    return any(RENEW in each.acknowledge_types for each in batches)


def _are_valid(batches: Sequence[_Batch], *, renews: bool) -> bool:
    """Return whether the batches are in order and have types for their offsets.

    (Kafka: validateAcknowledgementBatches)
    """
    end = -1
    for each in batches:
        types, length = each.acknowledge_types, each.last_offset - each.first_offset + 1
        if length < 1 or each.first_offset < end or len(types) not in (1, length):
            return False
        if not are_known(types, renews=renews):
            return False
        end = each.last_offset
    return True
