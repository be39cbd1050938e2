"""The upstream cluster's groups at the REST API of a gateway, and the lag alert."""

from pathlib import Path

from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.alerts import SetAlertRule
from broker.controller.commands import NewTopic
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.alerts import AlertCondition, AlertRule
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.gateway.contents.world import World, world
from webui.tables.answers import as_json

ORDERS = NewTopic("orders", 2, 1)


async def commit(found: World, group: str, offsets: dict[int, int]) -> None:
    client = await found.broker.connect()
    await client.ask(FindCoordinatorRequest(group, 0, [group]), 4)
    partitions = [OffsetCommitRequestPartition(index, offset) for index, offset in offsets.items()]
    topic = OffsetCommitRequestTopic("orders", partitions=partitions)
    reply = await client.ask(OffsetCommitRequest(group, topics=[topic]), 9)
    assert {each.error_code for topic in reply.topics for each in topic.partitions} == {0}


async def test_groups_of_each_type_are_those_of_the_broker(tmp_path: Path) -> None:
    async with world(tmp_path, of_broker=("group.initial.rebalance.delay.ms=0",)) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"b", b"c")
        await commit(found, "readers", {0: 1, 1: 0})
        new = await found.broker.connect()
        beat = ConsumerGroupHeartbeatRequest(
            "new",
            "m1",
            0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert (await new.ask(beat, 1)).error_code == 0
        share = ShareGroupHeartbeatRequest("sharers", "m2", 0, subscribed_topic_names=["orders"])
        assert (await new.ask(share, 1)).error_code == 0
        old = await found.broker.connect()
        protocols = [JoinGroupRequestProtocol("range", b"")]
        join = JoinGroupRequest("old", 30_000, 30_000, "", None, "consumer", protocols)
        asked = await old.ask(join, 5)
        join.member_id = asked.member_id
        assert (await old.ask(join, 5)).error_code == 0
        page = await found.get("groups")
        own = found.broker.server.views.topics
        wanted = {row.group_id: row for row in own.each_group() if row is not None}
        assert set(wanted) == {"readers", "new", "sharers", "old"}
        rows = {row["group_id"]: row for row in page["items"]}
        assert rows == {
            name: as_json(replace(row, lag=rows[name]["lag"], lost=rows[name]["lost"]))
            for name, row in wanted.items()
        }
        assert (rows["readers"]["lost"], rows["old"]["lost"]) == (0, None)
        assert (rows["readers"]["lag"], rows["old"]["lag"]) == (2, None)
        assert page["upstream"]["error"] == "" and page["upstream"]["refused"] == []
        for name in wanted:
            detail = run_through(own.group(name))
            one = await found.get(f"groups/{name}")
            assert detail is not None
            assert one["consumers"] == [as_json(each) for each in detail.members]
            assert one["assignor"] == detail.assignor
        one = await found.get("groups/readers")
        assert one["offsets"] == [
            {"topic": "orders", "partition": 0, "committed": 1, "end": 3, "lag": 2, "lost": 0},
            {"topic": "orders", "partition": 1, "committed": 0, "end": 0, "lag": 0, "lost": 0},
        ]
        assert (await found.get("groups/none", 404))["detail"] == "Group not found."


async def test_records_that_were_deleted_before_they_were_read_are_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"b", b"c")
        await commit(found, "readers", {0: 1})
        log = found.broker.server.partitions.log("orders", 0)
        assert log is not None
        log.delete_records_before(3)
        (row,) = (await found.get("groups"))["items"]
        assert (row["lag"], row["lost"]) == (2, 2)
        one = await found.get("groups/readers")
        assert [each["lost"] for each in one["offsets"]] == [2] and one["lost"] == 2
        readers = await found.get("topics/orders/groups")
        assert [(each["group_id"], each["lag"]) for each in readers["items"]] == [("readers", 2)]
        await found.get("topics/none/groups", 404)


async def test_the_lag_alert_fires_at_a_gateway_and_its_history_is_kept(tmp_path: Path) -> None:
    async with world(tmp_path, "alerts.evaluation.interval.ms=1000") as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"b", b"c")
        await commit(found, "readers", {0: 1})
        await commit(found, "quick", {0: 3})
        rule = AlertRule(AlertCondition.LAG, 1)
        assert (await found.gateway.server.control.apply(SetAlertRule("late", rule), BROKER_ITSELF)).ok
        (alert,) = (await found.until("alerts", lambda answer: answer["items"]))["items"]
        assert (alert["rule"], alert["state"], alert["value"]) == ("late", "firing", 2)
        assert alert["labels"] == [{"name": "group", "value": "readers"}]
        history = await found.until("groups:lag?group=readers", lambda answer: answer["lag"])
        assert history["lag"] == [2]
