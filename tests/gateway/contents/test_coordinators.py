"""Groups and transactions whose coordinator is another node than the asked one says, or is busy."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ApiError, ErrorCode
from broker.controller.group_changes import DeleteGroup
from broker.controller.plan import Situation
from broker.controller.transaction_changes import AbortTransaction
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.group_changes import TRIES, TRIES_PAUSE_S, GroupChanges
from broker.gateway.contents.groups import LOOKS, LOOKS_PAUSE_S, read_group
from broker.gateway.contents.readings import WAIT_S, UpstreamReadings
from broker.gateway.contents.refusals import Notes
from broker.network.clock import TrioClock
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from broker.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from broker.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from broker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from broker.protocol.messages.init_producer_id import InitProducerIdResponse
from broker.protocol.messages.list_groups import ListGroupsResponse
from tests.gateway.contents.test_faults import asking, committed_in, prepare
from tests.support.fake_upstream import FakeCluster

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
ANYONE = cast(Situation, SimpleNamespace(require=lambda *_: None))


class Coordinators:
    """The group `readers` moves from node 0 to node 1, of which brokers learn after so many questions."""

    def __init__(self, cluster: FakeCluster, known_after: int) -> None:
        self.left = known_after
        former, present = cluster.live
        for node in cluster.live:
            prepare(node, [0])
            committed_in(node, "readers")
            node.versions[ApiKey.FIND_COORDINATOR] = (0, 6)
            node.answers[ApiKey.FIND_COORDINATOR] = self._find
        former.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse()
        former.answers[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(
            groups=[DescribedGroup(NOT_COORDINATOR, None, each) for each in request.groups]
        )
        present.answers[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(
            groups=[DescribedGroup(0, None, each, "Dead") for each in request.groups]
        )

    def _find(self, request: Any) -> FindCoordinatorResponse:
        self.left -= 1
        (key,) = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[Coordinator(key, int(self.left < 0))])


@pytest.mark.parametrize("known_after", [0, 1, LOOKS - 1])
async def test_a_group_is_found_where_it_has_moved_to(autojump_clock: MockClock, known_after: int) -> None:
    """The former coordinator lists its groups without it, and without an error."""
    async with asking() as (cluster, found):
        Coordinators(cluster, known_after)
        group = await read_group(found, Notes(), "readers")
        assert group is not None and group.group.group_id == "readers"


async def test_a_group_that_no_node_coordinates_is_an_error_and_not_missing(
    autojump_clock: MockClock,
) -> None:
    async with asking() as (cluster, found):
        Coordinators(cluster, LOOKS)
        begun = trio.current_time()
        with pytest.raises(ApiError) as caught:
            await read_group(found, Notes(), "readers")
        assert caught.value.code is NOT_COORDINATOR
        took_s = trio.current_time() - begun
        assert took_s == pytest.approx((LOOKS - 1) * LOOKS_PAUSE_S) and took_s < WAIT_S


async def test_a_group_that_does_not_exist_is_looked_for_once(autojump_clock: MockClock) -> None:
    async with asking() as (cluster, found):
        Coordinators(cluster, 0)
        assert await read_group(found, Notes(), "others") is None
        assert sum(node.count(ApiKey.FIND_COORDINATOR) for node in cluster.live) == 1


def changes(found: Asking) -> GroupChanges:
    return GroupChanges(found, UpstreamReadings({}, 1_000, TrioClock()))


async def test_a_change_goes_to_the_coordinator_that_a_group_has_moved_to(autojump_clock: MockClock) -> None:
    """It moves after the group has been read."""
    async with asking() as (cluster, found):
        Coordinators(cluster, 0)
        former, present = cluster.live
        asked = []

        def delete(node_id: int) -> Callable[[Any], DeleteGroupsResponse]:
            def answer(request: Any) -> DeleteGroupsResponse:
                asked.append(node_id)
                code = NOT_COORDINATOR if len(asked) == 1 else ErrorCode.NONE
                return DeleteGroupsResponse(results=[DeletableGroupResult("readers", code)])

            return answer

        for node in (former, present):
            node.versions[ApiKey.DELETE_GROUPS] = (0, 2)
            node.answers[ApiKey.DELETE_GROUPS] = delete(node.node_id)
        await changes(found).delete(DeleteGroup("readers"), ANYONE)
        assert asked == [1, 1]


class Payer:
    """The transactional id `payer`, with an open transaction. `busy` is how many times its coordinator is
    busy with another change before it aborts the transaction; it then answers with an error once more.
    """

    def __init__(self, cluster: FakeCluster, busy: int, *, moves: bool = False) -> None:
        (node,) = cluster.live
        self.busy = busy
        self.state = "Ongoing"
        self.tried = 0
        self.moves = moves
        node.versions |= {
            ApiKey.FIND_COORDINATOR: (0, 6),
            ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
            ApiKey.INIT_PRODUCER_ID: (0, 5),
        }
        node.answers[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
            coordinators=[Coordinator(request.coordinator_keys[0], 0)]
        )
        node.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _request: DescribeTransactionsResponse(
            transaction_states=[TransactionState(0, "payer", self.state, 60_000, 1, 7, 3)]
        )
        node.answers[ApiKey.INIT_PRODUCER_ID] = self._init

    def _init(self, _request: Any) -> InitProducerIdResponse:
        self.tried += 1
        if self.moves and self.tried == 1:
            return InitProducerIdResponse(error_code=NOT_COORDINATOR)
        if self.tried > self.busy:
            self.state = "PrepareAbort"
        return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)


def abort(found: Asking) -> Awaitable[Any]:
    return changes(found).abort(AbortTransaction("payer", 7, 3, False), ANYONE)


@pytest.mark.parametrize("busy", [0, 1, TRIES - 1])
async def test_an_abort_is_tried_again_while_the_transactional_id_changes(
    autojump_clock: MockClock, busy: int
) -> None:
    async with asking(1) as (cluster, found):
        payer = Payer(cluster, busy)
        await abort(found)
        assert (payer.state, payer.tried) == ("PrepareAbort", busy + 1)


async def test_an_abort_that_has_not_begun_is_an_error(autojump_clock: MockClock) -> None:
    async with asking(1) as (cluster, found):
        payer = Payer(cluster, TRIES)
        begun = trio.current_time()
        with pytest.raises(ApiError, match="still open") as caught:
            await abort(found)
        assert caught.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        assert (payer.state, payer.tried) == ("Ongoing", TRIES)
        assert trio.current_time() - begun == pytest.approx((TRIES - 1) * TRIES_PAUSE_S)


async def test_an_abort_looks_for_the_coordinator_again(autojump_clock: MockClock) -> None:
    async with asking(1) as (cluster, found):
        payer = Payer(cluster, 0, moves=True)
        await abort(found)
        assert (payer.state, payer.tried) == ("PrepareAbort", 2)
