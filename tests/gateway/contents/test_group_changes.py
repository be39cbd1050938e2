"""Changes of the upstream cluster's groups through a gateway: offsets reset and deleted, groups deleted."""

from pathlib import Path

import pytest
import trio

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import NewTopic
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.views.readings import Part
from tests.gateway.contents.test_groups import commit
from tests.gateway.contents.world import World, world

ORDERS = NewTopic("orders", 2, 1)


async def offsets(found: World, group: str = "readers") -> dict[int, int]:
    return {each["partition"]: each["committed"] for each in (await found.get(f"groups/{group}"))["offsets"]}


@pytest.mark.parametrize(
    ("to", "moved"),
    [
        ({"earliest": True}, 0),
        ({"latest": True}, 3),
        ({"offset": 2}, 2),
        ({"offset": 9}, 3),
        ({"shift": 1}, 2),
        ({"shift": -5}, 0),
        ({"timestamp_ms": 2_000}, 3),
    ],
)
async def test_offsets_are_reset(tmp_path: Path, to: dict[str, object], moved: int) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"b", b"c")
        await commit(found, "readers", {0: 1})
        preview = await found.ask("POST", "groups/readers/offsets:reset?validate_only=true", 200, {"to": to})
        move = {
            "topic": "orders",
            "partition": 0,
            "from": 1,
            "to": moved,
            "difference": moved - 1,
            "end": 3,
        }
        assert preview["items"] == [move] and "kafka-consumer-groups.sh" in preview["command"]
        assert await offsets(found) == {0: 1}
        done = await found.ask("POST", "groups/readers/offsets:reset", 200, {"to": to})
        assert done["items"] == [move]
        assert await offsets(found) == {0: moved}
        (note,) = (await found.get("audit?kind=group"))["items"]
        assert (note["actor"], note["entity"], note["key"], note["new"]) == (
            "administrator",
            "readers",
            "offsets reset",
            f"orders, 0: 1 to {moved}",
        )


async def test_a_reset_that_was_made_is_answered_also_while_the_group_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for a shift again shifts twice."""

    async def fail(_part: Part, _name: str = "") -> None:
        await trio.lowlevel.checkpoint()
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await found.produce("orders", 0, b"a", b"b", b"c")
        await commit(found, "readers", {0: 1})
        with monkeypatch.context() as patch:
            patch.setattr(found.gateway.server.contents.readings, "fresh", fail)
            path = "groups/readers/offsets:reset"
            (done,) = (await found.ask("POST", path, 200, {"to": {"shift": 1}}))["items"]
            body = {"ops": [{"key": "retention.ms", "value": "5000"}]}
            configs = await found.ask("PATCH", "topics/orders/configs", 200, body)
        assert done["to"] == 2 and await offsets(found) == {0: 2}
        assert configs["items"] == [] and "retention.ms=5000" in configs["command"]
        assert (await found.get("topics/orders"))["configs"] != []


async def test_selected_topics_and_what_does_not_exist(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await commit(found, "readers", {0: 0})
        body = {"to": {"latest": True}, "topics": [{"topic": "orders", "partitions": [1]}]}
        done = await found.ask("POST", "groups/readers/offsets:reset", 200, body)
        assert [(each["partition"], each["from"], each["to"]) for each in done["items"]] == [(1, None, 0)]
        body = {"to": {"latest": True}, "topics": [{"topic": "none"}]}
        await found.ask("POST", "groups/readers/offsets:reset", 404, body)
        body = {"to": {"latest": True}, "topics": [{"topic": "orders", "partitions": [2]}]}
        await found.ask("POST", "groups/readers/offsets:reset", 404, body)
        await found.ask("POST", "groups/none/offsets:reset", 404, {"to": {"latest": True}})


async def test_offsets_and_groups_are_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        await commit(found, "readers", {0: 0, 1: 0})
        await commit(found, "others", {0: 0})
        await found.ask("DELETE", "groups/readers/offsets?topic=none", 404)
        await found.ask("DELETE", "groups/readers/offsets?topic=orders", 204)
        assert await offsets(found) == {}
        await found.ask("DELETE", "groups/others", 204)
        await found.get("groups/others", 404)
        await found.ask("DELETE", "groups/others", 404)
        notes = [
            (row["entity"], row["key"], row["new"]) for row in (await found.get("audit?kind=group"))["items"]
        ]
        assert notes == [
            ("others", "deleted", "by an operator"),
            ("readers", "offsets deleted", "orders, 2 partitions"),
        ]


async def test_a_group_with_members_is_left_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        await found.create(ORDERS)
        client = await found.broker.connect()
        beat = ConsumerGroupHeartbeatRequest(
            "new",
            "m1",
            0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        await found.until("groups", lambda _page: True)
        await commit(found, "readers", {0: 0})
        assert (await client.ask(beat, 1)).error_code == 0
        for method, path, body in (
            ("POST", "groups/new/offsets:reset", {"to": {"latest": True}, "topics": [{"topic": "orders"}]}),
            ("DELETE", "groups/new", None),
        ):
            problem = await found.ask(method, path, 409, body)
            assert problem["code"] == "NON_EMPTY_GROUP" and "Stop its members first" in problem["detail"]
            assert [each["member_id"] for each in problem["members"]] == ["m1"]
