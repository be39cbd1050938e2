"""Blocks of producer ids never overlap."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import AllocateProducerIds, ProducerIdBlock
from broker.controller.producer_ids import plan_producer_ids
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from tests.controller.world import World


def test_each_block_begins_where_the_last_one_ended(world: World) -> None:
    blocks = [world.do(plan_producer_ids, AllocateProducerIds(count)) for count in (1000, 1, 10)]
    assert blocks == [ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1), ProducerIdBlock(1001, 10)]
    assert world.image.next_producer_id == 1011


@pytest.mark.parametrize(("count", "fine"), [(9, True), (10, True), (11, False), (0, False)])
def test_ids_end_at_2_to_the_63(world: World, count: int, fine: bool) -> None:
    world.write([Change(ChangeKind.PRODUCER_IDS, "", "next", str(2**63 - 10))])
    if fine:
        assert world.do(plan_producer_ids, AllocateProducerIds(count)).first == 2**63 - 10
    else:
        with pytest.raises(ApiError) as caught:
            world.do(plan_producer_ids, AllocateProducerIds(count))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_blocks_are_the_brokers_own_affair(world: World) -> None:
    with pytest.raises(ApiError):
        world.do(plan_producer_ids, AllocateProducerIds(), Role.EDITOR)
    assert world.image.next_producer_id == 0
