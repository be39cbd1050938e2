"""Streams groups over REST: their topology, status, members and tasks; offsets that are reset and deleted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from broker.coordinator.group.messages import Endpoint
from broker.coordinator.group.streams.assignor import NOTHING
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from tests.webui.conftest import Browserless
from tests.webui.log_world import STREAMS_AT_ONCE, WALL_MS, LoggedBroker, LogWorld
from tests.webui.rest.test_groups import path, reset
from tests.webui.served import ServedConsole
from webui.problem import PROBLEM
from webui.rest.groups import GROUP_DETAIL, GROUP_PAGE, IN_USE, RESET

REPARTITION, CHANGELOG = "app-counts-repartition", "app-counts-changelog"
WORD_COUNT = Topology(
    3,
    (
        Subtopology(
            "1",
            repartition_source_topics=(TopicInfo(REPARTITION),),
            state_changelog_topics=(TopicInfo(CHANGELOG),),
        ),
        Subtopology("0", ("orders",), repartition_sink_topics=(REPARTITION,)),
    ),
)
GROUP = "app"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path, *STREAMS_AT_ONCE)
    for name in ("orders", REPARTITION, CHANGELOG):
        world.topic(name, 2)
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


async def asked(http: Browserless, group: str = GROUP) -> Any:
    answer = await http.get(path(group))
    assert answer.status_code == 200
    return GROUP_DETAIL.check(await answer.get_json())


async def listed(http: Browserless, query: str = "") -> list[tuple[str, str]]:
    answer = GROUP_PAGE.check(await (await http.get(f"/api/v1/groups{query}")).get_json())
    return [(row["state"], row["group_type"]) for row in answer["items"]]


def task(subtopology: str, partition: int, role: str | None, target: str | None, **offsets: int) -> Any:
    return {"subtopology": subtopology, "partition": partition, "role": role, "target": target} | offsets


async def test_a_group_has_its_topology_and_its_members_their_tasks(
    http: Browserless, world: LogWorld
) -> None:
    world.append("orders", *((None, str(n)) for n in range(10)))
    world.commit(GROUP, "orders", 4)
    world.stream(GROUP, "m", WORD_COUNT, "p", endpoint=Endpoint("here", 80), client_tags={"zone": "a"})
    offsets = {"task_offsets": {"1": {0: 5}}, "task_end_offsets": {"1": {0: 9, 1: 7}}}
    world.stream_on(GROUP, "m", 2, NOTHING, **offsets)
    answer = await asked(http)
    assert (answer["state"], answer["group_type"], answer["protocol"]) == ("Stable", "streams", "streams")
    assert (answer["assignor"], answer["members"], answer["lag"]) == ("sticky", 1, 6)
    splits = {
        "id": "0",
        "tasks": 2,
        "source_topics": ["orders"],
        "repartition_source_topics": [],
        "repartition_sink_topics": [REPARTITION],
        "changelog_topics": [],
    }
    counts = {
        "id": "1",
        "tasks": 2,
        "source_topics": [],
        "repartition_source_topics": [{"topic": REPARTITION, "partitions": 2}],
        "repartition_sink_topics": [],
        "changelog_topics": [{"topic": CHANGELOG, "partitions": 2}],
    }
    topology = {"epoch": 3, "subtopologies": [splits, counts]}
    assert answer["streams"] == {"topology": topology, "status": None}
    (member,) = answer["consumers"]
    assert (member["member_id"], member["client_id"], member["address"]) == ("m", "app", "/10.0.0.7")
    assert member["assigned"] == [
        {"topic": topic, "partition": index} for topic in ("orders", REPARTITION) for index in (0, 1)
    ]
    assert member["streams"] == {
        "process_id": "p",
        "topology_epoch": 3,
        "endpoint": {"host": "here", "port": 80},
        "client_tags": {"zone": "a"},
        "tasks": [
            task("0", 0, "active", "active"),
            task("0", 1, "active", "active"),
            task("1", 0, "active", "active", offset=5, end_offset=9),
            task("1", 1, "active", "active", end_offset=7),
        ],
    }


async def test_a_task_that_moves_has_its_role_and_its_target(http: Browserless, world: LogWorld) -> None:
    first = world.stream(GROUP, "m1", WORD_COUNT)
    world.stream(GROUP, "m2", WORD_COUNT)
    world.stream_on(GROUP, "m1", first.epoch, first.tasks)
    answer = await asked(http)
    assert answer["state"] == "Reconciling"
    moving = {each["member_id"]: [] for each in answer["consumers"]}
    for each in answer["consumers"]:
        for one in each["streams"]["tasks"]:
            if one["role"] != one["target"]:
                moving[each["member_id"]].append(
                    (one["subtopology"], one["partition"], one["role"], one["target"])
                )
    assert [each[2:] for each in moving["m1"]] == [("active", None)] * 2
    assert [each[2:] for each in moving["m2"]] == [(None, "active")] * 2
    assert [each[:2] for each in moving["m1"]] == [each[:2] for each in moving["m2"]]


async def test_every_state_is_listed_with_the_type(http: Browserless, world: LogWorld) -> None:
    assert await listed(http) == []
    missing = Topology(0, (Subtopology("0", ("missing",)),))
    first = world.stream("stable", "m1", WORD_COUNT)
    world.stream("not ready", "m", missing)
    world.stream("reconciling", "m1", WORD_COUNT)
    world.stream("reconciling", "m2", WORD_COUNT)
    world.stream("empty", "m", WORD_COUNT)
    assert not world.stream_on("empty", "m", -1).error and first.epoch > 0
    assert await listed(http, "?sort=name") == [
        ("Empty", "streams"),
        ("NotReady", "streams"),
        ("Reconciling", "streams"),
        ("Stable", "streams"),
    ]
    assert len(await listed(http, "?search=streams")) == 4
    assert await listed(http, "?filter=empty") == [("Empty", "streams")]


async def test_a_group_between_two_epochs_is_assigning(http: Browserless, world: LogWorld) -> None:
    world.stream(GROUP, "m1", WORD_COUNT)
    world.stream(GROUP, "m2", WORD_COUNT)
    world.stream_on(GROUP, "m2", -1)
    assert await listed(http) == [("Assigning", "streams")]


async def test_a_group_that_is_not_ready_says_why(http: Browserless, world: LogWorld) -> None:
    world.stream(GROUP, "m", Topology(0, (Subtopology("0", ("orders", "clicks")),)))
    answer = await asked(http)
    assert answer["state"] == "NotReady"
    assert answer["streams"]["status"] == {
        "code": "MISSING_SOURCE_TOPICS",
        "detail": "Source topics clicks are missing.",
    }
    (subtopology,) = answer["streams"]["topology"]["subtopologies"]
    assert subtopology["tasks"] is None and subtopology["source_topics"] == ["orders", "clicks"]
    assert answer["consumers"][0]["streams"]["tasks"] == []


async def test_a_group_without_members_keeps_its_topology(http: Browserless, world: LogWorld) -> None:
    world.stream(GROUP, "m", WORD_COUNT)
    world.stream_on(GROUP, "m", -1)
    answer = await asked(http)
    assert (answer["state"], answer["consumers"], answer["offsets"]) == ("Empty", [], [])
    assert len(answer["streams"]["topology"]["subtopologies"]) == 2


async def test_other_groups_have_no_streams(http: Browserless, world: LogWorld) -> None:
    world.commit("readers", "orders", 0)
    world.consume("readers", "orders")
    answer = await asked(http, "readers")
    assert "streams" not in answer and "streams" not in answer["consumers"][0]


TOOL = "kafka-streams-groups.sh --bootstrap-server 127.0.0.1:9092 --reset-offsets --group app "


@pytest.fixture
def committed(world: LogWorld) -> LogWorld:
    """The group without members, with offsets of its source topic."""
    for partition in range(2):
        world.append("orders", *((None, str(n)) for n in range(10)), partition=partition, step_ms=1_000)
    world.stream(GROUP, "m", WORD_COUNT)
    world.stream_on(GROUP, "m", -1)
    world.commit(GROUP, "orders", 4, 6)
    return world


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
async def test_offsets_are_reset_with_the_line_of_the_tool(
    http: Browserless, committed: LogWorld, to: Any, after: list[int], option: str
) -> None:
    answer = RESET.check(await (await reset(http, to, GROUP)).get_json())
    assert list(committed.committed(GROUP, "orders").values()) == after
    assert answer["command"] == f"{TOOL}--all-input-topics {option} --execute"


async def test_the_line_names_what_all_input_topics_would_leave_out(
    http: Browserless, committed: LogWorld
) -> None:
    committed.commit(GROUP, REPARTITION, 0)
    answer = RESET.check(await (await reset(http, {"latest": True}, GROUP)).get_json())
    named = f"--input-topic {REPARTITION}:0 --input-topic orders:0,1"
    assert answer["command"] == f"{TOOL}{named} --to-latest --execute"
    answer = await (await reset(http, {"latest": True}, GROUP, topics=[{"topic": "orders"}])).get_json()
    assert answer["command"] == f"{TOOL}--input-topic orders --to-latest --execute"


async def test_there_is_no_line_for_an_offset_that_is_new(http: Browserless, committed: LogWorld) -> None:
    """The tool resets only offsets that exist."""
    answer = await (await reset(http, {"latest": True}, GROUP, topics=[{"topic": REPARTITION}])).get_json()
    assert answer["command"] == "" and committed.committed(GROUP, REPARTITION) == {0: 0, 1: 0}


async def test_a_group_with_members_is_refused_with_their_names(
    http: Browserless, committed: LogWorld
) -> None:
    committed.stream(GROUP, "m", WORD_COUNT)
    for answer in (
        await reset(http, {"earliest": True}, GROUP),
        await http.ask("DELETE", path(GROUP)),
    ):
        assert answer.status_code == 409
        problem = IN_USE.check(await answer.get_json())
        assert [each["member_id"] for each in problem["members"]] == ["m"]
    refused = await http.ask("DELETE", path(GROUP, "/offsets?topic=orders"))
    assert refused.status_code == 409
    assert PROBLEM.check(await refused.get_json())["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert committed.committed(GROUP, "orders") == {0: 4, 1: 6}


async def test_offsets_and_then_the_group_are_deleted(http: Browserless, committed: LogWorld) -> None:
    assert (await http.ask("DELETE", path(GROUP, "/offsets?topic=orders"))).status_code == 204
    assert committed.committed(GROUP, "orders") == {}
    assert (await http.ask("DELETE", path(GROUP))).status_code == 204
    assert (await http.get(path(GROUP))).status_code == 404


def test_a_group_of_a_thousand_members_is_told_in_slices(world: LogWorld, broker: LoggedBroker) -> None:
    topology = Topology(0, (Subtopology("0", ("wide",)),))
    for number in range(1_000):
        assert not world.stream("large", f"m{number}", topology).error
    world.topic("wide", 10_000)
    assert not world.stream("large", "m0", topology).error
    with ServedConsole(broker) as served:
        request = Request(served.address + path("large"), headers={"Authorization": "Bearer admin-token"})
        with urlopen(request, timeout=60) as response:
            answer = GROUP_DETAIL.check(json.load(response))
    assert len(answer["consumers"]) == 1_000
    assert sum(len(each["streams"]["tasks"]) for each in answer["consumers"]) == 10_000
    steps = sum(1 for _ in world.logs.group("large"))
    assert steps >= 11_000
