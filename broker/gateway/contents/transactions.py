"""The upstream cluster's transactional ids, with the partitions of their open transactions."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import trio

from broker.api.requests.pacing import pieces
from broker.common.errors import ErrorCode
from broker.common.slices import SliceTimer
from broker.controller.rows.topics import TransactionDetail, TransactionPartition, TransactionRow
from broker.coordinator.transaction.state import NAMES, TransactionState
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.groups import TRANSACTION_KEY, find_coordinator, leaders_of
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.topics import LATEST, led_by, list_offsets
from broker.gateway.upstream.errors import UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.list_transactions import ListTransactionsRequest

DESCRIBED_AT_ONCE: Final = 200
"""Transactional ids of one request."""

OPEN: Final = frozenset(
    NAMES[state]
    for state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
)

Place = tuple[str, int]
"""A topic and a partition."""


async def read_transactions(asking: Asking, notes: Notes) -> dict[str, TransactionRow]:
    """Return all transactional ids. Raises UpstreamError."""
    ids: dict[int, list[str]] = {}
    for node_id, response in (await asking.ask_all(ListTransactionsRequest(), notes)).items():
        if not notes.note(ApiKey.LIST_TRANSACTIONS, response.error_code):
            ids[node_id] = [each.transactional_id for each in response.transaction_states]
    described: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        for node_id, of_node in ids.items():
            for some in pieces(of_node, DESCRIBED_AT_ONCE):
                nursery.start_soon(_describe, asking, notes, node_id, list(some), described)
    details = await _details(asking, notes, described)
    return {name: detail.transaction for name, detail in details.items()}


async def read_transaction(asking: Asking, notes: Notes, name: str) -> TransactionDetail | None:
    """Return one transactional id, None if there is none. Raises UpstreamError, ApiError."""
    described = await describe_transaction(asking, name)
    if described is None:
        return None
    return (await _details(asking, notes, {name: described}))[name]


async def describe_transaction(asking: Asking, name: str) -> Any:
    """Return what the coordinator says of a transactional id, None if there is none. Raises UpstreamError,
    ApiError.
    """
    node_id = await find_coordinator(asking, name, TRANSACTION_KEY)
    response = await asking.ask(node_id, DescribeTransactionsRequest([name]))
    for each in response.transaction_states:
        if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if each.error_code:
            raise error_of(ApiKey.DESCRIBE_TRANSACTIONS, each.error_code, name)
        return each
    return None


async def _describe(
    asking: Asking, notes: Notes, node_id: int, names: list[str], described: dict[str, Any]
) -> None:
    try:
        response = await asking.ask(node_id, DescribeTransactionsRequest(names))
    except UpstreamError as error:
        notes.failed(error)
        return
    for each in response.transaction_states:
        gone = each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        if not gone and not notes.note(ApiKey.DESCRIBE_TRANSACTIONS, each.error_code, each.transactional_id):
            described[each.transactional_id] = each


async def _details(
    asking: Asking, notes: Notes, described: Mapping[str, Any]
) -> dict[str, TransactionDetail]:
    """Return the rows, with where open transactions hold readers back."""
    places = {place for each in described.values() for place in _places(each)}
    firsts: dict[tuple[Place, int], int] = {}
    stable: dict[Place, int] = {}
    ends: dict[Place, int] = {}
    if places:
        led = led_by((*place, leader) for place, leader in (await leaders_of(asking, notes, places)).items())
        firsts = await _read_firsts(asking, notes, led)
        stable = await list_offsets(asking, notes, led, LATEST, committed=True)
        ends = await list_offsets(asking, notes, led, LATEST)
    found: dict[str, TransactionDetail] = {}
    timer = SliceTimer()
    for name in sorted(described):
        each = described[name]
        partitions = tuple(
            _partition(place, firsts.get((place, each.producer_id)), stable.get(place, 0), ends.get(place, 0))
            for place in sorted(_places(each))
        )
        is_open = each.transaction_state in OPEN and each.transaction_start_time_ms >= 0
        row = TransactionRow(
            name,
            each.transaction_state,
            max(each.producer_id, 0),
            each.producer_epoch,
            each.transaction_timeout_ms,
            len(partitions),
            sum(partition.holds_back for partition in partitions),
            "",
            "",
            "",
            each.transaction_start_time_ms if is_open else None,
            None,
        )
        found[name] = TransactionDetail(row, partitions)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    return found


def _places(described: Any) -> Iterable[Place]:
    return ((topic.topic, index) for topic in described.topics for index in topic.partitions)


def _partition(place: Place, first: int | None, stable: int, end: int) -> TransactionPartition:
    holds_back = first is not None and first <= stable < end
    return TransactionPartition(*place, first, stable, end, holds_back)


async def _read_firsts(
    asking: Asking, notes: Notes, led: Mapping[int, Mapping[str, list[int]]]
) -> dict[tuple[Place, int], int]:
    """Return the first offset of each open transaction, by partition and producer id."""
    requests = {
        node: DescribeProducersRequest([TopicRequest(topic, indexes) for topic, indexes in topics.items()])
        for node, topics in led.items()
    }
    found: dict[tuple[Place, int], int] = {}
    for response in (await asking.ask_each(requests, notes)).values():
        for topic in response.topics:
            for each in topic.partitions:
                if notes.note(ApiKey.DESCRIBE_PRODUCERS, each.error_code, topic.name, each.error_message):
                    continue
                for producer in each.active_producers:
                    if producer.current_txn_start_offset >= 0:
                        place = topic.name, each.partition_index
                        found[place, producer.producer_id] = producer.current_txn_start_offset
    return found
