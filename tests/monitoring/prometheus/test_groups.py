"""Groups of each type are counted by their state, and so are their rebalances."""

from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.messages import JoinReply, SyncRequest
from broker.coordinator.group.streams.topology import Subtopology, Topology
from broker.monitoring.prometheus.groups import COORDINATOR, GroupFamilies
from tests.webui.log_world import LogWorld

READS = Topology(0, (Subtopology("0", ("t",)),))


def values(world: LogWorld, groups: GroupFamilies) -> dict[str, float]:
    """Return what is not 0, by name and label."""
    return {
        " ".join((family.name.removeprefix(f"{COORDINATOR}_"), *(value for _, value in sample.labels))): found
        for family in groups.families(world.clock.ns())
        if family is not None
        for sample in family.samples
        if (found := sample.value)
    }


def test_groups_are_counted_by_type_and_state(tmp_path: Path) -> None:
    world = LogWorld(tmp_path)
    world.topic("t", 2)
    groups = GroupFamilies(world.groups, world.clock.ns())
    assert values(world, groups) == {}
    world.stream("streams", "m", READS)
    world.consume("consumers", "t")
    world.beat("sharers", 0, "t")
    world.commit("idle", "t", 5, 6)
    world.join("classic")
    world.clock.advance(2_000)
    counts = {
        "group_count classic": 2,
        "group_count consumer": 1,
        "group_count share": 1,
        "group_count streams": 1,
        "classic_group_count Empty": 1,
        "classic_group_count PreparingRebalance": 1,
        "consumer_group_count Stable": 1,
        "share_group_count Stable": 1,
        "streams_group_count Assigning": 1,
        "offset_count": 2,
        "consumer_group_rebalance_count": 1,
        "share_group_rebalance_count": 1,
        "streams_group_rebalance_count": 1,
    }
    rates = {
        "consumer_group_rebalance_rate": 0.5,
        "share_group_rebalance_rate": 0.5,
        "streams_group_rebalance_rate": 0.5,
    }
    assert values(world, groups) == counts | rates
    changed = {"share_group_count Stable", "streams_group_count Assigning"}
    world.stream("streams", "n", READS)
    world.stream_on("streams", "n", -1)
    world.stream_on("streams", "m", -1)
    world.beat("sharers", -1)
    world.clock.advance(1_000)
    assert values(world, groups) == {
        **{name: value for name, value in counts.items() if name not in changed},
        "share_group_count Empty": 1,
        "streams_group_count Empty": 1,
        "streams_group_rebalance_count": 2,
        "streams_group_rebalance_rate": 1.0,
    }
    world.close()


def test_a_generation_of_a_classic_group_counts_when_it_has_its_assignments(tmp_path: Path) -> None:
    world = LogWorld(tmp_path)
    world.topic("t")
    world.commit("g", "t", 1)
    world.join("g")
    world.clock.advance(3_000)
    ((_, joined),) = world.groups.expire(world.now()).replies
    assert isinstance(joined, JoinReply)
    assert not world.groups.rebalances
    request = SyncRequest("g", 1, joined.member_id, None, None, None, {joined.member_id: b""})
    effects = run_through(world.groups.coordinator.classic.sync(request, object(), world.now()))
    world.groups.write_now(effects, world.now())
    assert world.groups.rebalances == {"classic": 1}
    world.close()


def test_an_epoch_that_was_not_written_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LogWorld(tmp_path)
    world.topic("t")
    world.commit("g", "t", 1)

    def fails(_records: Any) -> Any:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as context:
        context.setattr(world.groups, "_sort", fails)
        assert world.stream("s", "m", READS).error is ErrorCode.NOT_COORDINATOR
    assert not world.groups.rebalances
    assert world.stream("s", "m", READS).error is ErrorCode.NONE
    assert world.groups.rebalances == {"streams": 1}
    world.close()
