"""Creating, extending, configuring and deleting topics over REST."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.controller.rows.topics import TopicClientRow
from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import console_config
from tests.webui.log_world import LoggedBroker, LogWorld
from webui.http.app import build_app, make_console
from webui.problem import PROBLEM
from webui.rest.topics import (
    CREATED,
    EDITED_CONFIGS,
    PARTITIONS,
    REFUSED_CONFIGS,
    REFUSED_COUNT,
    TOPIC_CLIENT_PAGE,
    TOPIC_CONFIGS,
    TOPIC_DETAIL,
    TOPIC_GROUP_PAGE,
    TOPIC_PAGE,
)

TOPICS = "/api/v1/topics"
ONE = f"{TOPICS}/orders"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path, "num.partitions=4")
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


async def create(http: Browserless, query: str = "", **body: Any) -> Any:
    return await http.ask("POST", f"{TOPICS}{query}", body={"name": "orders"} | body, token="editor-token")


async def problem(answer: Any, status: int) -> Any:
    assert answer.status_code == status, await answer.get_data()
    return PROBLEM.check(await answer.get_json())


async def test_a_topic_is_created_at_its_location(http: Browserless) -> None:
    configs = {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    answer = await create(http, partitions=3, configs=configs)
    assert answer.status_code == 201 and answer.headers["Location"] == ONE
    made = CREATED.check(await answer.get_json())
    assert (made["partitions"], made["replication_factor"], made["configs"]) == (3, 1, configs)
    assert made["command"] == (
        "kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic orders --partitions 3 "
        "--replication-factor 1 --config cleanup.policy=compact,delete --config retention.ms=5"
    )
    found = await http.get(ONE)
    detail = TOPIC_DETAIL.check(await found.get_json())
    assert detail["configs"] == configs and found.headers["ETag"] == answer.headers["ETag"]


async def test_validating_says_what_would_be_and_creates_nothing(http: Browserless, world: LogWorld) -> None:
    answer = await create(http, "?validate_only=true")
    assert answer.status_code == 200 and "Location" not in answer.headers
    assert CREATED.check(await answer.get_json())["partitions"] == 4
    assert world.control.image.topics == {}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"name": ""}, 400, "empty string"),
        ({"name": ".."}, 400, "'..' is not allowed"),
        ({"name": "a/b"}, 400, "characters other than"),
        ({"name": "<script>"}, 400, "characters other than"),
        ({"name": "x" * 250}, 400, "longer than the max allowed length 249"),
        ({"name": "x" * 1_025}, 400, "must have 0 to 1024"),
        ({"name": None}, 400, "must be a string"),
        ({"name": "a\ud800"}, 400, "lone surrogate"),
        ({"partitions": 0}, 400, "at least 1"),
        ({"partitions": -1}, 400, "at least 1"),
        ({"partitions": 1.5}, 400, "integer"),
        ({"partitions": "3"}, 400, "number"),
        ({"partitions": 2**31}, 400, "at most"),
        ({"partitions": 10_001}, 400, "large number of partitions"),
        ({"replication_factor": 2}, 400, "only 1 broker"),
        ({"configs": {"retention.ms": "soon"}}, 400, "Invalid value soon for configuration retention.ms"),
        ({"configs": {"retention": "1"}}, 400, "Unknown topic config name: retention"),
        ({"configs": {"retention.ms": 5}}, 400, "must be a string"),
        ({"more": 1}, 400, "unknown field"),
    ],
)
async def test_what_is_no_topic_is_refused_and_creates_nothing(
    http: Browserless, world: LogWorld, body: Any, status: int, words: str
) -> None:
    assert words in (await problem(await create(http, **body), status))["detail"]
    assert world.control.image.topics == {}


async def test_a_topic_is_created_once(http: Browserless) -> None:
    assert (await create(http, name="a.b")).status_code == 201
    assert (await problem(await create(http, name="a.b"), 409))["code"] == "TOPIC_ALREADY_EXISTS"
    assert (
        "collides with existing topic: a.b" in (await problem(await create(http, name="a_b"), 400))["detail"]
    )


async def test_a_viewer_creates_nothing(http: Browserless, world: LogWorld) -> None:
    answer = await http.ask("POST", TOPICS, body={"name": "orders"}, token="viewer-token")
    assert "requires the role editor" in (await problem(answer, 403))["detail"]
    assert world.control.image.topics == {}


async def partitions(http: Browserless, count: Any, query: str = "", **rest: Any) -> Any:
    return await http.ask("PUT", f"{ONE}/partitions{query}", body={"count": count}, **rest)


async def test_partitions_are_added_once(http: Browserless, world: LogWorld) -> None:
    await create(http, partitions=2)
    dry = PARTITIONS.check(await (await partitions(http, 5, "?validate_only=true")).get_json())
    assert (dry["before"], dry["count"]) == (2, 5) and world.control.image.topics["orders"].partitions == 2
    for before in (2, 5):
        answer = await partitions(http, 5)
        assert answer.status_code == 200
        assert PARTITIONS.check(await answer.get_json())["before"] == before
    assert dry["command"].endswith("--alter --topic orders --partitions 5")
    assert world.control.image.topics["orders"].partitions == 5


async def test_partitions_never_become_fewer(http: Browserless) -> None:
    await create(http, partitions=3)
    answer = await partitions(http, 2)
    assert answer.status_code == 409
    assert REFUSED_COUNT.check(await answer.get_json())["current"] == 3
    for count in (0, -1, 2**31, "4", None):
        assert (await partitions(http, count)).status_code == 400
    assert (await http.ask("PUT", f"{TOPICS}/missing/partitions", body={"count": 9})).status_code == 404


async def configs(http: Browserless, *ops: Any, query: str = "", **rest: Any) -> Any:
    return await http.ask("PATCH", f"{ONE}/configs{query}", body={"ops": ops}, **rest)


async def test_settings_say_their_value_source_and_meaning(http: Browserless) -> None:
    await create(http, configs={"retention.ms": "5"})
    answer = await http.get(f"{ONE}/configs")
    rows = {row["name"]: row for row in TOPIC_CONFIGS.check(await answer.get_json())["items"]}
    own = rows["retention.ms"]
    assert (own["value"], own["source"]) == ("5", "topic") and own["documentation"]
    assert [each["source"] for each in own["synonyms"]] == ["topic"]
    assert own["default"] == "604800000"
    assert rows["cleanup.policy"]["source"] == "default"


async def test_settings_are_set_and_removed_together(http: Browserless, world: LogWorld) -> None:
    await create(http, configs={"retention.ms": "5"})
    ops = ({"key": "retention.ms", "remove": True}, {"key": "segment.bytes", "value": "1048576"})
    dry = await configs(http, *ops, query="?validate_only=true")
    assert dry.status_code == 200 and world.control.image.topics["orders"].configs == {"retention.ms": "5"}
    answer = await configs(http, *ops)
    edited = EDITED_CONFIGS.check(await answer.get_json())
    assert {row["name"]: row["source"] for row in edited["items"]} == {
        "retention.ms": "default",
        "segment.bytes": "topic",
    }
    assert edited["command"] == (
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type topics --entity-name "
        "orders --add-config segment.bytes=1048576 --delete-config retention.ms"
    )
    assert world.control.image.topics["orders"].configs == {"segment.bytes": "1048576"}


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ({"key": "retention.ms", "value": "-2"}, "Invalid value -2"),
        ({"key": "retention.ms", "value": ""}, "Invalid value"),
        ({"key": "nothing", "value": "1"}, "Unknown topic config name"),
        ({"key": "nothing", "remove": True}, "Unknown topic config name"),
        ({"key": "retention.ms", "append": "1"}, "Can't APPEND"),
        ({"key": "retention.ms"}, "must be {key, value}"),
        ({"key": "retention.ms", "value": 1}, "must be a string"),
        ({"key": "cleanup.policy", "value": "x" * 32_768}, "must have 0 to 32767"),
    ],
)
async def test_an_edit_is_applied_as_a_whole_or_not(
    http: Browserless, world: LogWorld, op: Any, words: str
) -> None:
    await create(http)
    answer = await configs(http, {"key": "segment.bytes", "value": "1048576"}, op)
    assert words in (await problem(answer, 400))["detail"]
    assert world.control.image.topics["orders"].configs == {}


async def test_of_two_edits_of_one_version_the_second_sees_the_first(
    http: Browserless, world: LogWorld
) -> None:
    version = (await create(http)).headers["ETag"]
    first = await configs(http, {"key": "retention.ms", "value": "7"}, If_Match=version)
    assert first.status_code == 200 and first.headers["ETag"] != version
    late = await configs(http, {"key": "retention.ms", "value": "8"}, If_Match=version)
    assert late.status_code == 412
    (current,) = REFUSED_CONFIGS.check(await late.get_json())["current"]
    assert current["value"] == "7"
    for answer in (
        await partitions(http, 9, If_Match=version),
        await http.ask("DELETE", ONE, If_Match=version),
    ):
        await problem(answer, 412)
    assert world.control.image.topics["orders"].configs == {"retention.ms": "7"}


async def test_a_topic_is_deleted_by_an_administrator(http: Browserless, world: LogWorld) -> None:
    version = (await create(http)).headers["ETag"]
    assert (await http.ask("DELETE", ONE, token="editor-token")).status_code == 403
    answer = await http.ask("DELETE", ONE, If_Match=version)
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert world.control.image.topics == {}
    for missing in (
        await http.ask("DELETE", ONE),
        await http.get(f"{ONE}/configs"),
        await configs(http, {"key": "retention.ms", "value": "1"}),
    ):
        await problem(missing, 404)


async def test_deletion_can_be_disabled(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    world = LogWorld(tmp_path / "kept", "delete.topic.enable=false")
    world.topic("orders")
    console = make_console(LoggedBroker(world).backend(), console_config(), PORT)
    other = Browserless(build_app(console).test_client(use_cookies=False))
    assert (await problem(await other.ask("DELETE", ONE), 409))["code"] == "TOPIC_DELETION_DISABLED"
    world.close()


async def test_a_topic_is_told_with_its_retention_rates_groups_and_last_write(
    http: Browserless, world: LogWorld, broker: LoggedBroker
) -> None:
    world.topic("orders", 2, retention_ms="5000", retention_bytes="-1", cleanup_policy="compact,delete")
    row = TOPIC_DETAIL.check(await (await http.get(ONE)).get_json())
    assert (row["cleanup"], row["retention_ms"], row["retention_bytes"]) == ("compact,delete", 5_000, -1)
    assert row["last_write_at"] is None and row["records_in_per_s"] is None and row["groups"] is None
    world.append("orders", ("k", "x" * 100), ("l", "y" * 100))
    world.commit("readers", "orders", 1)
    (row, _) = TOPIC_PAGE.check(await (await http.get(TOPICS)).get_json())["items"]
    assert row["last_write_at"] == "2023-11-14T22:13:20.000Z" and row["groups"] == 1
    broker.now_ms += 1_000
    world.append("orders", ("k", "x" * 100), partition=1)
    (row, _) = TOPIC_PAGE.check(await (await http.get(f"{TOPICS}?sort=in&order=desc")).get_json())["items"]
    assert row["name"] == "orders" and row["records_in_per_s"] == 3.0 and row["bytes_out_per_s"] == 0.0
    assert row["bytes_in_per_s"] == row["size_bytes"] > 300


async def test_the_groups_of_a_topic_are_told_with_their_lag_in_it(
    http: Browserless, world: LogWorld
) -> None:
    world.topic("orders", 2)
    world.topic("clicks")
    world.append("orders", *((None, "x") for _ in range(5)))
    world.append("clicks", *((None, "x") for _ in range(50)))
    world.commit("both", "orders", 2, 0)
    world.commit("both", "clicks", 0)
    world.commit("other", "clicks", 0)
    await world.share("sharers", "orders", 1, 0)
    page = TOPIC_GROUP_PAGE.check(await (await http.get(f"{ONE}/groups?sort=lag&order=desc")).get_json())
    assert [(row["group_id"], row["group_type"], row["lag"]) for row in page["items"]] == [
        ("sharers", "share", 4),
        ("both", "classic", 3),
    ]
    await problem(await http.get(f"{TOPICS}/nothing/groups"), 404)


async def test_the_connected_clients_of_a_topic_are_told(
    http: Browserless, world: LogWorld, broker: LoggedBroker
) -> None:
    world.topic("orders")
    broker.topic_clients["orders"] = [
        TopicClientRow("shop", "alice", "librdkafka", "2.16.0", 3, 2, 1),
        TopicClientRow("audit", "bob", "unknown", "unknown", 1, 0, 1),
    ]
    page = TOPIC_CLIENT_PAGE.check(await (await http.get(f"{ONE}/clients")).get_json())
    assert [(row["client_id"], row["writing"], row["reading"]) for row in page["items"]] == [
        ("audit", 0, 1),
        ("shop", 2, 1),
    ]
    found = await (await http.get(f"{ONE}/clients?search=librdkafka")).get_json()
    assert [row["principal"] for row in found["items"]] == ["alice"] and found["total"] == 1
    await problem(await http.get(f"{TOPICS}/nothing/clients"), 404)
