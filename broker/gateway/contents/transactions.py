"""The upstream cluster's transactional ids, with the partitions of their open transactions."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import trio

from broker.api.requests.pacing import pieces
from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import SliceTimer, Steps, freed, sorted_in_steps
from broker.controller.rows.topics import TransactionDetail, TransactionPartition, TransactionRow
from broker.coordinator.transaction.state import NAMES, TransactionState
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.groups import TRANSACTION_KEY, at_coordinator, leaders_of
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.topics import LATEST, Positions, ask_leaders, led_by, offsets_of
from broker.gateway.upstream.errors import UpstreamError
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from broker.protocol.messages.list_transactions import ListTransactionsRequest

DESCRIBED_AT_ONCE: Final = 200
"""Transactional ids of one request."""

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last time that an answer can show."""

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


class Described(NamedTuple):
    """What the coordinator says of a transactional id. `places` are in order."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    places: list[Place]


async def read_transactions(asking: Asking, notes: Notes) -> dict[str, TransactionRow]:
    """Return all transactional ids. Raises UpstreamError."""
    ids: dict[int, list[str]] = {}

    def take_of(node_id: int) -> Callable[[Any], Steps[None]]:
        def take(response: Any) -> Steps[None]:
            if notes.note(ApiKey.LIST_TRANSACTIONS, response.error_code):
                return
            own = ids[node_id] = []
            for each in response.transaction_states:
                own.append(each.transactional_id)
                yield

        return take

    await asking.take_all(ListTransactionsRequest(), take_of, notes)
    described: dict[str, Described] = {}
    async with trio.open_nursery() as nursery:
        for node_id, of_node in ids.items():
            for some in pieces(of_node, DESCRIBED_AT_ONCE):
                nursery.start_soon(_describe, asking, notes, node_id, list(some), described)
    details = await _details(asking, notes, described)
    rows = {}
    timer = SliceTimer()
    for name, detail in details.items():
        rows[name] = detail.transaction
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    await run_slices(freed(details))
    return rows


async def read_transaction(asking: Asking, notes: Notes, name: str) -> TransactionDetail | None:
    """Return one transactional id, None if there is none. Raises UpstreamError, ApiError."""
    described = await describe_transaction(asking, name)
    if described is None:
        return None
    return (await _details(asking, notes, {name: described}))[name]


async def describe_transaction(asking: Asking, name: str) -> Described | None:
    """Return what the coordinator says of a transactional id, None if there is none. Raises UpstreamError,
    ApiError.
    """

    def take(response: Any) -> Steps[Described | None]:
        for each in response.transaction_states:
            if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            if each.error_code:
                raise error_of(ApiKey.DESCRIBE_TRANSACTIONS, each.error_code, name)
            return (yield from _described(each))
        return None

    async def ask(node_id: int) -> Described | None:
        return await asking.take(node_id, DescribeTransactionsRequest([name]), take)

    return await at_coordinator(asking, name, TRANSACTION_KEY, ask)


async def _describe(
    asking: Asking, notes: Notes, node_id: int, names: list[str], described: dict[str, Described]
) -> None:
    def take(response: Any) -> Steps[None]:
        key = ApiKey.DESCRIBE_TRANSACTIONS
        for each in response.transaction_states:
            gone = each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            if not gone and not notes.note(key, each.error_code, each.transactional_id):
                described[each.transactional_id] = yield from _described(each)
            yield

    try:
        await asking.take(node_id, DescribeTransactionsRequest(names), take)
    except UpstreamError as error:
        notes.failed(error)


def _described(each: Any) -> Steps[Described]:
    places: list[Place] = []
    for topic in each.topics:
        places += ((topic.topic, index) for index in topic.partitions)
        yield
    return Described(
        each.transaction_state,
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        min(each.transaction_start_time_ms, LAST_MS),
        sorted(places),
    )


async def _details(
    asking: Asking, notes: Notes, described: Mapping[str, Described]
) -> dict[str, TransactionDetail]:
    """Return the rows, with where open transactions hold readers back."""
    places: set[Place] = set()
    timer = SliceTimer()
    for each in described.values():
        places.update(each.places)
        if timer.is_over():
            await trio.lowlevel.checkpoint()
    firsts: dict[tuple[Place, int], int] = {}
    stable: Positions = {}
    ends: Positions = {}
    if places:
        leaders = await leaders_of(asking, notes, places)
        await _read_firsts(asking, notes, leaders, firsts)
        stable = await offsets_of(asking, notes, leaders, LATEST, committed=True)
        ends = await offsets_of(asking, notes, leaders, LATEST)
    found = await run_slices(_rows(described, firsts, stable, ends))
    for done in (firsts, stable, ends):
        await run_slices(freed(done))
    return found


def _rows(
    described: Mapping[str, Described],
    firsts: Mapping[tuple[Place, int], int],
    stable: Positions,
    ends: Positions,
) -> Steps[dict[str, TransactionDetail]]:
    found: dict[str, TransactionDetail] = {}
    for name in (yield from sorted_in_steps(described)):
        each = described[name]
        partitions: list[TransactionPartition] = []
        for place in each.places:
            first = firsts.get((place, each.producer_id))
            partitions.append(_partition(place, first, stable.get(place, 0), ends.get(place, 0)))
            yield
        is_open = each.state in OPEN and each.started_ms >= 0
        row = TransactionRow(
            name,
            each.state,
            max(each.producer_id, 0),
            each.producer_epoch,
            max(each.timeout_ms, 0),
            len(partitions),
            sum(partition.holds_back for partition in partitions),
            "",
            "",
            "",
            each.started_ms if is_open else None,
            None,
        )
        found[name] = TransactionDetail(row, tuple(partitions))
        yield
    return found


def _partition(place: Place, first: int | None, stable: int, end: int) -> TransactionPartition:
    holds_back = first is not None and first <= stable < end
    return TransactionPartition(*place, first, stable, end, holds_back)


async def _read_firsts(
    asking: Asking, notes: Notes, leaders: Positions, firsts: dict[tuple[Place, int], int]
) -> None:
    """Read the first offset of each open transaction, by partition and producer id."""

    def take(response: Any) -> Steps[None]:
        for topic in response.topics:
            for each in topic.partitions:
                yield
                if notes.note(ApiKey.DESCRIBE_PRODUCERS, each.error_code, topic.name, each.error_message):
                    continue
                for producer in each.active_producers:
                    yield
                    if producer.current_txn_start_offset >= 0:
                        place = topic.name, each.partition_index
                        firsts[place, producer.producer_id] = producer.current_txn_start_offset

    def request(topics: Mapping[str, list[int]]) -> DescribeProducersRequest:
        return DescribeProducersRequest([TopicRequest(*each) for each in topics.items()])

    led = await run_slices(led_by((*place, leader) for place, leader in leaders.items()))
    await ask_leaders(asking, notes, led, request, take)
