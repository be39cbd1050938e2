"""One quota rule as a resource: what a tool needs that holds a desired state."""

from typing import Any

import pytest
from quart import Response

from broker.controller.commands import EntityPairs
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection
from webui.rest.client_quota_rule import EDITED
from webui.rest.client_quotas import QUOTA

PATH = "/api/v1/client-quotas"
ALICE: EntityPairs = (("user", "alice"),)
ONE = f"{PATH}/user=alice"
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
LARGEST = 2**63


async def put(http: Browserless, limits: dict[str, Any], path: str = ONE, **more: Any) -> Response:
    headers = more.pop("headers", {})
    return await http.ask("PUT", path, body={"limits": limits, **more}, **headers)


async def edited(answer: Response) -> dict[str, Any]:
    return EDITED.check(await answer.get_json())


async def test_a_rule_is_created_read_replaced_and_removed(http: Browserless, broker: FakeBroker) -> None:
    answer = await put(http, {PRODUCER: 1_000, CONSUMER: 2_000})
    assert answer.status_code == 201 and answer.headers["Location"] == ONE
    rule = (await edited(answer))["current"]
    assert (rule["id"], rule["entity"], rule["shadow"]) == ("user=alice", {"user": "alice"}, False)

    read = await http.get(ONE)
    assert QUOTA.check(await read.get_json()) == rule
    assert read.headers["ETag"] == answer.headers["ETag"] == f'"{rule["version"]}"'

    answer = await put(http, {PRODUCER: 3_000}, shadow=True)
    rule = (await edited(answer))["current"]
    assert answer.status_code == 200 and "Location" not in answer.headers
    assert {key: limit["value"] for key, limit in rule["limits"].items()} == {PRODUCER: 3_000}
    assert rule["shadow"] and rule["version"] > 0

    answer = await http.ask("DELETE", ONE)
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert broker.rows == {}
    assert (await http.get(ONE)).status_code == (await http.ask("DELETE", ONE)).status_code == 404


async def test_every_rule_of_the_list_has_the_id_that_leads_to_it(
    http: Browserless, broker: FakeBroker
) -> None:
    for entity in (ALICE, (("user", None), ("client-id", "a/b, c")), (("ip", "10.0.0.7"),)):
        key = "connection_creation_rate" if entity[0][0] == "ip" else PRODUCER
        broker.set(entity, {key: 7})
    rows = (await (await http.get(PATH)).get_json())["items"]
    for row in rows:
        assert await (await http.get(f"{PATH}/{row['id']}")).get_json() == row
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("entity", "limits", "words"),
    [
        (
            "user=alice",
            {PRODUCER: 9, CONSUMER: 5},
            "--add-config producer_byte_rate=9,consumer_byte_rate=5 --delete-config request_percentage",
        ),
        ("user=alice", {PRODUCER: 1_000, "request_percentage": 50}, "--add-config consumer_byte_rate"),
        ("user=bob", {PRODUCER: 9}, "--add-config producer_byte_rate=9 --entity-type users"),
        ("ip=10.0.0.7", {"connection_creation_rate": 5}, "--add-config connection_creation_rate=5"),
    ],
)
async def test_the_command_changes_what_differs(
    http: Browserless, broker: FakeBroker, entity: str, limits: dict[str, float], words: str
) -> None:
    """Kafka's tool refuses to delete a limit that there is not."""
    broker.set(ALICE, {PRODUCER: 1_000, "request_percentage": 50})
    answer = await edited(await put(http, limits, f"{PATH}/{entity}?validate_only=true"))
    if CONSUMER not in limits and entity == "user=alice":
        assert answer["command"] == ""
    else:
        assert words in answer["command"]
    assert broker.rows.keys() == {ALICE}


async def test_a_preview_says_whom_it_reaches_and_changes_nothing(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.connection_rows = [connection("app", "alice")]
    answer = await put(http, {PRODUCER: 1_000}, f"{ONE}?validate_only=true")
    body = await edited(answer)
    assert answer.status_code == 200 and answer.headers["ETag"] == '"0"' and body["current"] is None
    assert [(reach["key"], reach["clients"]) for reach in body["reach"]] == [(PRODUCER, 1)]
    assert broker.rows == {}
    broker.set(ALICE, {PRODUCER: 1_000})
    answer = await http.ask("DELETE", f"{ONE}?validate_only=true")
    assert (await edited(answer))["reach"][0]["clients"] == 1 and ALICE in broker.rows


@pytest.mark.parametrize("headers", [{"If_Match": '"999"'}, {"If_None_Match": "*"}])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_rule_that_has_changed_since_is_not_overwritten(
    http: Browserless, broker: FakeBroker, method: str, headers: dict[str, str]
) -> None:
    broker.set(ALICE, {PRODUCER: 1_000})
    body = {"limits": {PRODUCER: 2_000}} if method == "PUT" else None
    answer = await http.ask(method, ONE, body=body, **headers)
    problem = await answer.get_json()
    assert answer.status_code == 412 and problem["current"]["limits"][PRODUCER]["value"] == 1_000
    assert problem["type"] == "urn:weir:problem:version-mismatch"
    assert broker.rows[ALICE].value(PRODUCER) == 1_000


async def test_the_version_that_was_read_is_accepted(http: Browserless, broker: FakeBroker) -> None:
    broker.set(ALICE, {PRODUCER: 1_000})
    tag = (await http.get(ONE)).headers["ETag"]
    assert (await put(http, {PRODUCER: 2_000}, headers={"If_Match": tag})).status_code == 200
    assert (
        await put(http, {PRODUCER: 1}, f"{PATH}/user=bob", headers={"If_None_Match": "*"})
    ).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        (ONE, {}, "/limits"),
        (ONE, {"limits": {}}, "/limits"),
        (ONE, {"limits": {PRODUCER: 0}}, f"/limits/{PRODUCER}"),
        (ONE, {"limits": {PRODUCER: LARGEST}}, f"/limits/{PRODUCER}"),
        (ONE, {"limits": {PRODUCER: "1"}}, f"/limits/{PRODUCER}"),
        (ONE, {"limits": {PRODUCER: None}}, f"/limits/{PRODUCER}"),
        (ONE, {"limits": {"log.retention.ms": 1}}, "/limits/log.retention.ms"),
        (ONE, {"limits": {"connection_creation_rate": 1}}, "/limits/connection_creation_rate"),
        (f"{PATH}/ip=10.0.0.7", {"limits": {PRODUCER: 1}}, f"/limits/{PRODUCER}"),
        (ONE, {"limits": {PRODUCER: 1}, "shadow": None}, "/shadow"),
        (ONE, {"limits": {PRODUCER: 1}, "entity": {"user": "alice"}}, "/entity"),
        (f"{PATH}/alice", {"limits": {PRODUCER: 1}}, "id"),
        (f"{PATH}/user=", {"limits": {PRODUCER: 1}}, "id"),
        (f"{PATH}/client-id=app,user=alice", {"limits": {PRODUCER: 1}}, "id"),
    ],
)
async def test_bad_input_is_refused_and_changes_nothing(
    http: Browserless, broker: FakeBroker, path: str, body: dict[str, Any], where: str
) -> None:
    answer = await http.ask("PUT", path, body=body)
    assert answer.status_code == 400 and (await answer.get_json())["where"] == where
    assert broker.rows == {}


@pytest.mark.parametrize("value", [1, 2**53, LARGEST - 1_024])
async def test_limits_up_to_the_largest_are_accepted(
    http: Browserless, broker: FakeBroker, value: int
) -> None:
    assert (await put(http, {PRODUCER: value})).status_code == 201
    assert broker.rows[ALICE].value(PRODUCER) == value


async def test_the_largest_limit_of_kafkas_clients_is_read_as_one_that_a_put_takes(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.set(ALICE, {PRODUCER: float(LARGEST)})
    rule = QUOTA.check(await (await http.get(ONE)).get_json())
    value = rule["limits"][PRODUCER]["value"]
    assert value == LARGEST - 1
    assert (await put(http, {PRODUCER: value})).status_code == 200
    assert broker.rows[ALICE].value(PRODUCER) == LARGEST


async def test_what_only_kafkas_rules_refuse_carries_its_error(http: Browserless, broker: FakeBroker) -> None:
    answer = await put(http, {PRODUCER: 1.5})
    problem = await answer.get_json()
    assert (answer.status_code, problem["code"]) == (400, "INVALID_REQUEST")
    assert problem["type"] == "urn:weir:problem:refused" and broker.rows == {}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_viewers_may_read_and_not_change(http: Browserless, broker: FakeBroker, method: str) -> None:
    broker.set(ALICE, {PRODUCER: 1_000})
    body = {"limits": {PRODUCER: 2_000}} if method == "PUT" else None
    assert (await http.get(ONE, token="viewer-token")).status_code == 200
    assert (await http.ask(method, ONE, token="viewer-token", body=body)).status_code == 403
    assert broker.rows[ALICE].value(PRODUCER) == 1_000
