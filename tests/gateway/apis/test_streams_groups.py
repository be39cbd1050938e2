"""Internal topics that the upstream cluster would create for a Streams application behind the gateway."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.gateway.apis.streams_groups import DENIED
from broker.metadata.actor import Role
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from broker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.gateway.apis.test_metadata import both

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def joining(member_id: str, *changelogs: str) -> StreamsGroupHeartbeatRequest:
    topics = [TopicInfo(name) for name in changelogs]
    topology = Topology(0, [Subtopology("0", ["orders"], state_changelog_topics=topics)])
    return StreamsGroupHeartbeatRequest(
        f"of-{member_id}",
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    )


@pytest.mark.parametrize("role", Role)
async def test_only_clients_that_may_create_topics_join_with_internal_ones(
    tmp_path: Path, role: Role
) -> None:
    async with both(tmp_path, role.name.lower()) as (broker, _gateway, client):
        direct = await broker.connect()
        await direct.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]), 7)
        await direct.ask(FindCoordinatorRequest(coordinator_keys=["any"]), 4)
        for version in (0, 1):
            allowed = await client.ask(joining(f"a{version}", f"app-{version}-changelog"), version)
            may = role >= Role.EDITOR
            assert allowed.error_code == (0 if may else REFUSED)
            assert allowed.error_message == (None if may else DENIED)
            assert (await client.ask(joining(f"b{version}"), version)).error_code == 0
            ours = await client.ask(joining(f"c{version}", "__weir_x"), version)
            assert (ours.error_code, ours.error_message) == (REFUSED, DENIED)
            # Other heartbeats are forwarded, and so are the other APIs.
            leaving = StreamsGroupHeartbeatRequest(f"of-b{version}", f"b{version}", -1)
            assert (await client.ask(leaving, version)).member_epoch == -1
            groups = (await client.ask(StreamsGroupDescribeRequest([f"of-b{version}"]), version)).groups
            assert [each.group_state for each in groups] == ["Empty"]
