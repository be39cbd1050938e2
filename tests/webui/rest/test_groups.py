"""Resetting and deleting offsets of groups over REST, and groups."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.controller.commands import (
    BROKER_ITSELF,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceType,
)
from broker.coordinator.share.dead_letters import DeadLetterCounts
from tests.webui.conftest import Browserless
from tests.webui.log_world import WALL_MS, LoggedBroker, LogWorld
from webui.problem import PROBLEM
from webui.rest.groups import GROUP_DETAIL, GROUP_PAGE, IN_USE, RESET

STRANGE = 'a/b?c#d %2e <script> ../offsets "y"'
NAMES = ("g", STRANGE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("t", 2)
    for partition in range(2):
        world.append("t", *((None, str(n)) for n in range(10)), partition=partition, step_ms=1_000)
    for name in NAMES:
        world.commit(name, "t", 4, 6)
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


def path(name: str, rest: str = "") -> str:
    return f"/api/v1/groups/{quote(name, safe='')}{rest}"


async def reset(http: Browserless, to: Any, name: str = "g", query: str = "", **rest: Any) -> Any:
    topics = {"topics": rest.pop("topics")} if "topics" in rest else {}
    return await http.ask("POST", path(name, f"/offsets:reset{query}"), body={"to": to} | topics, **rest)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("to", "after", "option"),
    [
        ({"earliest": True}, [0, 0], "--to-earliest"),
        ({"latest": True}, [10, 10], "--to-latest"),
        ({"offset": 5}, [5, 5], "--to-offset 5"),
        ({"shift": -1}, [3, 5], "--shift-by -1"),
        ({"timestamp_ms": WALL_MS + 2_000}, [2, 2], "--to-datetime 2023-11-14T22:13:22.000"),
    ],
)
async def test_offsets_are_reset_after_a_dry_run(
    http: Browserless, world: LogWorld, name: str, to: Any, after: list[int], option: str
) -> None:
    dry = RESET.check(await (await reset(http, to, name, "?validate_only=true")).get_json())
    assert world.committed(name, "t") == {0: 4, 1: 6}
    answer = RESET.check(await (await reset(http, to, name)).get_json())
    assert dry == answer and list(world.committed(name, "t").values()) == after
    assert answer["items"][0] == {
        "topic": "t",
        "partition": 0,
        "from": 4,
        "to": after[0],
        "difference": after[0] - 4,
        "end": 10,
    }
    assert answer["command"].startswith("kafka-consumer-groups.sh --bootstrap-server ")
    assert f"--all-topics {option} --execute" in answer["command"]


@pytest.mark.parametrize(
    ("to", "after", "option"),
    [
        ({"earliest": True}, [0, 0], "--to-earliest"),
        ({"latest": True}, [10, 10], "--to-latest"),
        ({"timestamp_ms": WALL_MS + 2_000}, [2, 2], "--to-datetime 2023-11-14T22:13:22.000"),
    ],
)
async def test_a_share_groups_command_is_that_of_its_own_tool(
    http: Browserless, world: LogWorld, to: Any, after: list[int], option: str
) -> None:
    await world.share("s", "t", 4, 6)
    answer = RESET.check(await (await reset(http, to, "s")).get_json())
    assert [move["to"] for move in answer["items"]] == after
    assert answer["command"].startswith("kafka-share-groups.sh --bootstrap-server ")
    assert answer["command"].endswith(f" --reset-offsets --group s --all-topics {option} --execute")


@pytest.mark.parametrize("to", [{"shift": -1}, {"offset": 5}])
async def test_a_share_group_is_reset_as_no_tool_can(http: Browserless, world: LogWorld, to: Any) -> None:
    await world.share("s", "t", 4, 6)
    answer = RESET.check(await (await reset(http, to, "s")).get_json())
    assert answer["command"] == "" and len(answer["items"]) == 2


async def test_topics_and_partitions_are_selected(http: Browserless, world: LogWorld) -> None:
    answer = await reset(http, {"latest": True}, topics=[{"topic": "t", "partitions": [1]}])
    assert "--topic t:1 --to-latest" in (await answer.get_json())["command"]
    assert world.committed("g", "t") == {0: 4, 1: 10}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/to"),
        ({"to": {}}, "/to"),
        ({"to": {"earliest": False}}, "/to/earliest"),
        ({"to": {"offset": -1}}, "/to/offset"),
        ({"to": {"offset": 1.5}}, "/to/offset"),
        ({"to": {"shift": "1"}}, "/to/shift"),
        ({"to": {"shift": 2**63}}, "/to/shift"),
        ({"to": {"timestamp_ms": 253_402_300_800_000}}, "/to/timestamp_ms"),
        ({"to": {"latest": True}, "topics": [{"topic": ""}]}, "/topics/0/topic"),
        ({"to": {"latest": True}, "topics": [{"topic": "t", "partitions": [-1]}]}, "/topics/0/partitions/0"),
    ],
)
async def test_what_is_no_reset_is_refused(http: Browserless, world: LogWorld, body: Any, where: str) -> None:
    answer = await http.ask("POST", path("g", "/offsets:reset"), body=body)
    assert answer.status_code == 400 and PROBLEM.check(await answer.get_json())["where"] == where
    assert world.committed("g", "t") == {0: 4, 1: 6}


async def test_a_group_in_use_names_its_members(http: Browserless, world: LogWorld) -> None:
    world.join("g", "<b>billing</b>", "/10.0.0.9")
    for answer in (await reset(http, {"earliest": True}), await http.ask("DELETE", path("g"))):
        assert answer.status_code == 409
        problem = IN_USE.check(await answer.get_json())
        assert problem["code"] == "NON_EMPTY_GROUP" and "<b>billing</b> at 10.0.0.9" in problem["detail"]
        assert [(each["client_id"], each["address"]) for each in problem["members"]] == [
            ("<b>billing</b>", "/10.0.0.9")
        ]
    assert world.committed("g", "t") == {0: 4, 1: 6}


@pytest.mark.parametrize("name", NAMES)
async def test_offsets_of_a_topic_and_then_the_group_are_deleted(
    http: Browserless, world: LogWorld, name: str
) -> None:
    answer = await http.ask("DELETE", path(name, "/offsets?topic=t"), token="editor-token")
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert world.committed(name, "t") == {}
    world.commit(name, "t", 1)
    assert (await http.ask("DELETE", path(name), token="viewer-token")).status_code == 403
    assert (await http.ask("DELETE", path(name))).status_code == 204
    for missing in (
        await http.get(path(name)),
        await http.ask("DELETE", path(name)),
        await reset(http, {"earliest": True}, name),
        await http.ask("DELETE", path(name, "/offsets?topic=t")),
    ):
        assert missing.status_code == 404


async def test_the_topic_of_the_offsets_is_required(http: Browserless, world: LogWorld) -> None:
    assert (await http.ask("DELETE", path("g", "/offsets"))).status_code == 400
    assert (await http.ask("DELETE", path("g", "/offsets?topic=missing"))).status_code == 404
    assert world.committed("g", "t") == {0: 4, 1: 6}


async def test_a_share_group_with_a_dead_letter_queue_has_the_number_of_its_dead_letters(
    http: Browserless, world: LogWorld
) -> None:
    await world.share("s", "t", 4, 6)
    assert "dead_letters" not in await (await http.get("/api/v1/groups/s")).get_json()
    world.dead_letters["s"] = DeadLetterCounts()
    world.dead_letters["s"].records = 3
    answer = GROUP_DETAIL.check(await (await http.get("/api/v1/groups/s")).get_json())
    assert answer["dead_letters"] == {"topic": "", "records": 3}
    resource = ConfigResource(ResourceType.GROUP, "s")
    op = ConfigOp("errors.deadletterqueue.topic.name", OpType.SET, " dlq.t ")
    await world.control.apply(IncrementalAlterConfigs((ConfigAlteration(resource, (op,)),)), BROKER_ITSELF)
    answer = await (await http.get("/api/v1/groups/s")).get_json()
    assert answer["dead_letters"] == {"topic": "dlq.t", "records": 3}


async def test_lost_records_are_told_and_such_groups_are_the_worst(
    http: Browserless, world: LogWorld
) -> None:
    world.commit("far", "t", 7, 0)
    log = world.partitions.log("t", 0)
    assert log is not None
    for start, lost in ((4, 0), (5, 1), (10, 6)):
        log.delete_records_before(start)
        detail = GROUP_DETAIL.check(await (await http.get(path("g"))).get_json())
        assert (detail["lag"], detail["lost"]) == (10, lost)
        assert [each["lost"] for each in detail["offsets"]] == [lost, 0]
    world.commit("more", "t", 10, 0)
    answer = await http.get("/api/v1/groups?sort=worst&order=desc")
    rows = GROUP_PAGE.check(await answer.get_json())["items"]
    assert [row["group_id"] for row in rows] == ["far", *sorted(NAMES), "more"]
    assert [row["lost"] for row in rows] == [3, 6, 6, 0]
    page = GROUP_PAGE.check(await (await http.get("/api/v1/groups?filter=lost")).get_json())
    assert page["total"] == 3
