"""Subscriptions to clients' metrics, and the clients that push them, over REST."""

from typing import Any

import pytest

from broker.controller.commands import (
    Actor,
    ChangeOrigin,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    OpType,
    ResourceType,
    Role,
)
from broker.telemetry.subscription import MAX_PREFIXES, Subscription
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.rest.client_metrics import EDITED, INSTANCE, INSTANCE_PAGE, REFUSED, SUBSCRIPTION_PAGE
from webui.rest.replies import path_of_name

PATH = "/api/v1/client-metrics"
ONE = f"{PATH}/queues"
INSTANCES = "/api/v1/client-instances"
WALL_MS = 1_700_000_000_000


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.telemetry.join("orders-1")
    broker.telemetry.join("orders-2", software="librdkafka")
    broker.telemetry.join("billing")
    return broker


async def put(http: Browserless, path: str = ONE, query: str = "", **body: Any) -> Any:
    attributes = {key.replace("_", "."): value for key, value in body.items() if key != "headers"}
    return await http.ask("PUT", f"{path}{query}", body=attributes, **body.get("headers", {}))


async def test_a_subscription_is_made_replaced_and_taken_away(http: Browserless) -> None:
    answer = await put(http, metrics=["org.a.", "org.b."], interval_ms=60_000, match=["client_id=orders-.*"])
    edited = EDITED.check(await answer.get_json())
    assert answer.status_code == 201 and answer.headers["Location"] == ONE
    assert answer.headers["ETag"] == f'"{edited["current"]["version"]}"'
    assert edited["current"] | {"version": 0, "changed_at": "", "changed_by": ""} == {
        "name": "queues",
        "metrics": ["org.a.", "org.b."],
        "interval.ms": 60_000,
        "match": ["client_id=orders-.*"],
        "matching": 2,
        "version": 0,
        "changed_at": "",
        "changed_by": "",
    }
    assert edited["reach"] == {"clients": 2, "of": 3, "examples": ["orders-1", "orders-2"]}
    assert edited["command"] == (
        "kafka-client-metrics.sh --bootstrap-server 127.0.0.1:9092 --alter --name queues "
        "--metrics org.a.,org.b. --interval 60000 --match 'client_id=orders-.*'"
    )
    # What a PUT leaves out has its default again.
    answer = await put(http, metrics=["*"])
    edited = EDITED.check(await answer.get_json())
    assert answer.status_code == 200 and "Location" not in answer.headers
    assert (edited["current"]["interval.ms"], edited["current"]["match"]) == (300_000, [])
    assert edited["command"].endswith("--name queues --metrics '*' --interval '' --match ''")
    asked = await http.ask("DELETE", f"{ONE}?validate_only=true")
    assert EDITED.check(await asked.get_json())["command"].endswith("--delete --name queues")
    answer = await http.ask("DELETE", ONE, If_Match=f'"{edited["current"]["version"]}"')
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert (await http.get(ONE)).status_code == 404
    assert (await http.ask("DELETE", ONE)).status_code == 404


async def test_validating_says_the_clients_that_it_would_apply_to_and_changes_nothing(
    http: Browserless,
) -> None:
    answer = await put(
        http, query="?validate_only=true", metrics=["*"], match=["client_software_name=librdkafka"]
    )
    edited = EDITED.check(await answer.get_json())
    assert edited["reach"] == {"clients": 1, "of": 3, "examples": ["orders-2"]}
    assert edited["current"] is None and answer.headers["ETag"] == '"0"'
    assert (await http.get(ONE)).status_code == 404


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"metrics": ["*"], "interval_ms": 99}, "interval must be between 100 and 3600000"),
        ({"metrics": ["*"], "match": ["client_id=("]}, "missing )"),
        ({"metrics": ["*"], "match": ["team=a"]}, "Illegal client matching pattern: team=a"),
        ({"metrics": ["a,b"]}, "must not contain a comma"),
        ({"metrics": ["*"], "match": ["client_id=a{1,2}"]}, "must not contain a comma"),
        ({"metrics": [""]}, "must have 1 to"),
        ({"interval_ms": 100}, "metrics"),
    ],
)
async def test_invalid_subscriptions_are_refused_with_a_reason(
    http: Browserless, body: dict[str, Any], words: str
) -> None:
    answer = await put(http, **body)
    problem = REFUSED.check(await answer.get_json())
    assert answer.status_code == 400 and words in f"{problem['detail']} {problem.get('where', '')}"
    assert (await http.get(ONE)).status_code == 404


async def test_of_two_edits_of_the_same_version_the_second_gets_the_current_one(http: Browserless) -> None:
    first = await put(http, metrics=["*"], headers={"If_None_Match": "*"})
    assert first.status_code == 201
    late = await put(http, metrics=["org.a."], headers={"If_None_Match": "*"})
    refused = REFUSED.check(await late.get_json())
    assert late.status_code == 412 and refused["current"]["metrics"] == ["*"]
    assert (
        await put(http, metrics=["org.a."], headers={"If_Match": first.headers["ETag"]})
    ).status_code == 200


async def test_subscriptions_are_listed_with_their_clients(http: Browserless) -> None:
    await put(http, f"{PATH}/a", metrics=["*"])
    await put(http, f"{PATH}/b/c", metrics=["org."], match=["client_id=nobody"])
    page = SUBSCRIPTION_PAGE.check(await (await http.get(PATH)).get_json())
    assert [(row["name"], row["matching"]) for row in page["items"]] == [("a", 3), ("b/c", 0)]
    assert page["instances"] == 3
    page = await (await http.get(f"{PATH}?filter=unused")).get_json()
    assert [row["name"] for row in page["items"]] == ["b/c"]
    assert (await (await http.get(f"{PATH}/b/c")).get_json())["match"] == ["client_id=nobody"]


async def test_instances_are_listed_with_what_became_of_their_requests(
    http: Browserless, broker: FakeBroker
) -> None:
    await put(http, metrics=["org."], match=["client_id=orders-.*"])
    telemetry = broker.telemetry
    first, *_ = telemetry.state.manager
    telemetry.say(first, WALL_MS, queue=1.0)
    page = INSTANCE_PAGE.check(await (await http.get(f"{INSTANCES}?filter=pushing")).get_json())
    (row,) = page["items"]
    assert (row["client_id"], row["pushes"], row["pushed_bytes"], row["series"]) == ("orders-1", 1, 100, 1)
    assert row["subscriptions"] == ["queues"] and row["last_push_at"] == "2023-11-14T22:13:20.000Z"
    assert (row["software_name"], row["last_error"]) == ("apache-kafka-java", "")
    page = await (await http.get(f"{INSTANCES}?search=RDKAFKA")).get_json()
    assert [each["client_id"] for each in page["items"]] == ["orders-2"]
    page = await (await http.get(f"{INSTANCES}?filter=unsubscribed")).get_json()
    assert [each["client_id"] for each in page["items"]] == ["billing"]


async def test_an_instance_whose_subscriptions_have_too_many_prefixes_says_so(
    http: Browserless, broker: FakeBroker
) -> None:
    most = {f"{at:x}." for at in range(MAX_PREFIXES)}
    manager = broker.telemetry.state.manager
    manager.on_metadata_update({"many": Subscription("many", frozenset(most))})
    broker.telemetry.join("below")
    manager.on_metadata_update({"more": Subscription("more", frozenset({"one.more"}))})
    broker.telemetry.join("above")
    page = INSTANCE_PAGE.check(await (await http.get(f"{INSTANCES}?filter=over_limit")).get_json())
    (row,) = page["items"]
    assert (row["client_id"], row["over_limit"], row["metrics"]) == ("above", True, ["*"])
    page = await (await http.get(f"{INSTANCES}?search=below")).get_json()
    assert [(row["over_limit"], len(row["metrics"])) for row in page["items"]] == [(False, MAX_PREFIXES)]


async def test_one_instance_has_what_it_says_with_a_little_of_the_past(
    http: Browserless, broker: FakeBroker
) -> None:
    first, *_ = broker.telemetry.state.manager
    broker.telemetry.say(first, WALL_MS, queue=1.0, rate=float("nan"))
    broker.telemetry.say(first, WALL_MS + 1_000, queue=2.5)
    (row, *_) = (await (await http.get(INSTANCES)).get_json())["items"][1:]
    found = INSTANCE.check(await (await http.get(f"{INSTANCES}/{row['instance_id']}")).get_json())
    queue, rate = found["latest_metrics"]
    assert queue == {
        "name": "org.queue",
        "attributes": [{"name": "node_id", "value": "1"}],
        "shape": "gauge",
        "value": 2.5,
        "history": {"at_ms": [WALL_MS, WALL_MS + 1_000], "values": [1.0, 2.5]},
    }
    assert rate["value"] is None and rate["history"]["values"] == [None]


@pytest.mark.parametrize(
    "instance", ["AAAAAAAAAAAAAAAAAAAAAg%3D%3D", "nobody", "-", "AAAAAAAAAAAAAAAAAAAAAA"]
)
async def test_an_unknown_instance_is_not_found(http: Browserless, instance: str) -> None:
    assert (await http.get(f"{INSTANCES}/{instance}")).status_code == 404


HOSTILE = [
    "..",
    ".",
    "...",
    "a/b",
    "/a",
    "a/",
    "//",
    "a/../b",
    "%2F",
    "%2e%2e",
    " a ",
    "~",
    "~2e",
    "a~zz",
    "ä/ü",
    "?#",
]


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_subscription_of_any_name_is_read_replaced_and_removed(
    http: Browserless, broker: FakeBroker, name: str
) -> None:
    """As one made by IncrementalAlterConfigs, which accepts every name."""
    resource = ConfigResource(ResourceType.CLIENT_METRICS, name)
    alteration = ConfigAlteration(resource, (ConfigOp("metrics", OpType.SET, "org.a."),))
    assert broker.telemetry.configure(alteration, Actor("ann", Role.ADMIN, "", ChangeOrigin.WIRE)).ok
    path = path_of_name("client-metrics", name)
    assert not {".", ".."} & set(path.removeprefix(f"{PATH}/").replace("%2F", "/").split("/"))

    one = await (await http.get(path)).get_json()
    assert (one["name"], one["metrics"]) == (name, ["org.a."])
    assert (await put(http, path, metrics=["org.b."])).status_code == 200
    assert broker.telemetry.world.image.client_metrics[name].configs["metrics"] == "org.b."
    assert (await http.ask("DELETE", path)).status_code == 204
    answer = await put(http, path, metrics=["org.c."])
    assert answer.status_code == 201 and answer.headers["Location"] == path
    assert list(broker.telemetry.world.image.client_metrics) == [name]


async def test_a_name_in_a_path_is_in_utf_8(http: Browserless) -> None:
    answer = await http.get(f"{PATH}/~ff")
    assert answer.status_code == 400
    assert (await answer.get_json())["detail"] == "must be a name in UTF-8"
