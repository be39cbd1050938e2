"""How many connections an address may make in a second, over REST."""

from typing import Any

import pytest

from broker.common.temporary_limits import from_times
from broker.controller.rows.connections import ConnectionLimitRow
from tests.webui.conftest import Browserless
from tests.webui.fakes import IP_KEY, FakeBroker
from tests.webui.rows import use
from webui.rest.ip_quotas import ADDRESS, EDITED, IP_QUOTAS

PATH = "/api/v1/ip-quotas"
DEFAULT = f"{PATH}/%3Cdefault%3E"
ONE = f"{PATH}/10.0.0.7"


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker(version=7)
    broker.set((("ip", None),), {IP_KEY: 5.0}, by="ann")
    broker.set((("ip", "10.0.0.7"),), {IP_KEY: 20.0})
    broker.set((("user", "alice"),), {"producer_byte_rate": 1e6})
    broker.address_uses = [
        use("10.0.0.7", 12.0, throttled=3),
        use("10.0.0.9", 9.0, connections=1, refused=2),
        use("fe80::1", 1.0, connections=2),
    ]
    return broker


def put(http: Browserless, path: str, value: Any, **rest: Any) -> Any:
    return http.ask("PUT", path, body={IP_KEY: value}, **rest)


async def listed(http: Browserless, query: str = "") -> list[str]:
    answer = IP_QUOTAS.check(await (await http.get(f"{PATH}{query}")).get_json())
    return [item["address"] for item in answer["items"]]


async def test_addresses_stand_by_number_behind_the_default(http: Browserless) -> None:
    assert await listed(http) == ["<default>", "10.0.0.7", "10.0.0.9", "fe80::1"]
    assert await listed(http, "?filter=limited") == ["<default>", "10.0.0.7"]
    assert await listed(http, "?filter=stopped&sort=refused&order=desc") == ["10.0.0.9", "10.0.0.7"]
    assert await listed(http, "?search=ANN") == ["<default>"]
    assert await listed(http, "?order=desc&limit=1") == ["fe80::1"]


async def test_an_address_without_a_limit_has_the_default(http: Browserless) -> None:
    answer = await http.get(f"{PATH}/10.0.0.9")
    row = ADDRESS.check(await answer.get_json())
    assert row[IP_KEY] is None and row["bound"] == 5.0 and row["use"]["refused"] == 2
    assert answer.headers["ETag"] == '"0"'


async def test_an_address_can_be_an_ipv6_one(http: Browserless) -> None:
    assert (await (await http.get(f"{PATH}/fe80::1")).get_json())["use"]["connections"] == 2


async def test_an_unknown_address_is_not_found(http: Browserless) -> None:
    assert (await http.get(f"{PATH}/10.9.9.9")).status_code == 404
    assert (await http.ask("DELETE", f"{PATH}/10.0.0.9")).status_code == 404


async def test_a_limit_is_set_and_taken_away(http: Browserless, broker: FakeBroker) -> None:
    answer = await put(http, f"{PATH}/10.0.0.9", 8)
    edited = EDITED.check(await answer.get_json())
    assert answer.status_code == 201 and answer.headers["Location"] == f"{PATH}/10.0.0.9"
    assert edited["current"][IP_KEY] == 8 and answer.headers["ETag"] == '"8"'
    assert edited["command"] == (
        "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --add-config connection_creation_rate=8 "
        "--entity-type ips --entity-name 10.0.0.9"
    )
    answer = await http.ask("DELETE", f"{PATH}/10.0.0.9?validate_only=true", If_Match='"8"')
    edited = EDITED.check(await answer.get_json())
    assert edited["current"][IP_KEY] == 8 and "--delete-config" in edited["command"]
    answer = await http.ask("DELETE", f"{PATH}/10.0.0.9", If_Match='"8"')
    assert answer.status_code == 204 and await answer.get_data() == b""
    assert (("ip", "10.0.0.9"),) not in broker.rows


async def test_the_default_is_an_entity_of_its_own(http: Browserless, broker: FakeBroker) -> None:
    assert (await put(http, DEFAULT, 6)).status_code == 200
    assert broker.rows[(("ip", None),)].value(IP_KEY) == 6
    assert (await http.ask("DELETE", DEFAULT)).status_code == 204
    assert (("ip", None),) not in broker.rows


@pytest.mark.parametrize(
    ("path", "value", "reach"),
    [
        (f"{PATH}/10.0.0.9", 9.0, {"addresses": 1, "over": 0, "connections": 1}),
        (f"{PATH}/10.0.0.9", 8.0, {"addresses": 1, "over": 1, "connections": 1}),
        (f"{PATH}/10.9.9.9", 1.0, {"addresses": 0, "over": 0, "connections": 0}),
        (DEFAULT, 1.0, {"addresses": 2, "over": 1, "connections": 3}),
    ],
)
async def test_asking_first_says_the_clients_that_it_would_affect(
    http: Browserless, broker: FakeBroker, path: str, value: float, reach: dict[str, int]
) -> None:
    before = dict(broker.rows)
    answer = await put(http, f"{path}?validate_only=true", value)
    assert EDITED.check(await answer.get_json())["reach"].items() >= reach.items()
    assert broker.rows == before


async def test_taking_a_limit_away_leaves_the_default(http: Browserless) -> None:
    answer = await http.ask("DELETE", f"{ONE}?validate_only=true")
    reach = EDITED.check(await answer.get_json())["reach"]
    assert reach == {"addresses": 1, "over": 1, "connections": 3, "from": 20, "to": 5}


@pytest.mark.parametrize("headers", [{"If_Match": '"6"'}, {"If_None_Match": "*"}])
async def test_a_version_that_has_passed_is_refused_with_what_is_now(
    http: Browserless, broker: FakeBroker, headers: dict[str, str]
) -> None:
    answer = await put(http, ONE, 1, **headers)
    assert answer.status_code == 412
    assert (await answer.get_json())["current"][IP_KEY] == 20
    assert broker.rows[(("ip", "10.0.0.7"),)].value(IP_KEY) == 20
    assert (await put(http, ONE, 1, If_Match='"7"')).status_code == 200


@pytest.mark.parametrize(
    "body",
    [{}, {IP_KEY: 0}, {IP_KEY: -1}, {IP_KEY: 2**63}, {IP_KEY: "5"}, {IP_KEY: None}, {IP_KEY: 1, "x": 1}],
)
async def test_invalid_rates_are_refused(http: Browserless, broker: FakeBroker, body: Any) -> None:
    assert (await http.ask("PUT", ONE, body=body)).status_code == 400
    assert broker.applied == []


async def test_a_viewer_may_look_and_not_edit(http: Browserless, broker: FakeBroker) -> None:
    assert (await http.get(PATH, token="viewer-token")).status_code == 200
    assert (await put(http, ONE, 1, token="viewer-token")).status_code == 403
    assert (await http.ask("DELETE", ONE, token="viewer-token")).status_code == 403
    assert broker.rows[(("ip", "10.0.0.7"),)].value(IP_KEY) == 20


# With a listener of the controller


@pytest.fixture
def with_controller(broker: FakeBroker) -> FakeBroker:
    """10.0.0.9 is slower than its limit of 5 there, and only on the controller's is 10.0.0.11 known."""
    broker.controller_uses = [
        use("10.0.0.9", 2.0, connections=1, refused=1),
        use("10.0.0.11", 4.0, connections=7),
    ]
    return broker


async def test_an_address_is_one_row_with_what_it_does_on_each_server(
    http: Browserless, with_controller: FakeBroker
) -> None:
    row = ADDRESS.check(await (await http.get(f"{PATH}/10.0.0.9")).get_json())
    assert (row["use"]["rate"], row["controller_use"]["rate"]) == (9.0, 2.0)
    row = ADDRESS.check(await (await http.get(f"{PATH}/10.0.0.11")).get_json())
    assert (row["use"], row["controller_use"]["connections"]) == (None, 7)
    assert await listed(http, "?filter=stopped&sort=refused&order=desc") == ["10.0.0.9", "10.0.0.7"]
    assert await listed(http, "?filter=connected&sort=connections&order=desc&limit=2") == [
        "10.0.0.11",
        "10.0.0.7",
    ]


async def test_a_limit_reaches_an_address_on_each_server_by_itself(
    http: Browserless, with_controller: FakeBroker
) -> None:
    """At 6 a second it is over on the broker's; 9 + 2 is over nothing, as no rule counts them together."""

    async def reach(address: str, rate: float) -> Any:
        answer = await put(http, f"{PATH}/{address}?validate_only=true", rate)
        found = EDITED.check(await answer.get_json())["reach"]
        return {name: found[name] for name in ("addresses", "over", "connections")}

    assert await reach("10.0.0.9", 6.0) == {"addresses": 1, "over": 1, "connections": 2}
    assert await reach("10.0.0.9", 9.0) == {"addresses": 1, "over": 0, "connections": 2}
    assert await reach("10.0.0.11", 3.0) == {"addresses": 1, "over": 1, "connections": 7}


async def test_limits_say_which_server_they_count_for(http: Browserless, broker: FakeBroker) -> None:
    broker.limit_rows = [
        ConnectionLimitRow("", 12, 20, 1.5, None, ()),
        ConnectionLimitRow("PLAINTEXT", 12, None, 1.5, None, ()),
        ConnectionLimitRow("", 2, 20, 0.0, None, (), "controller"),
        ConnectionLimitRow("CONTROLLER", 2, None, 0.0, None, (), "controller"),
    ]
    answer = IP_QUOTAS.check(await (await http.get(PATH)).get_json())
    assert [(each["server"], each["listener"], each["connections"]) for each in answer["limits"]] == [
        ("broker", "", 12),
        ("broker", "PLAINTEXT", 12),
        ("controller", "", 2),
        ("controller", "CONTROLLER", 2),
    ]


async def test_an_address_has_its_use_at_every_gateway(http: Browserless, broker: FakeBroker) -> None:
    broker.remote_shares.address_rows = [
        use("10.0.0.7", 19.0, connections=4, refused=1, gateway="g2"),
        use("10.0.0.8", 2.0, connections=1, gateway="g2"),
    ]
    broker.unlisted_address_count, broker.without_report = 9, ["g3"]
    answer = IP_QUOTAS.check(await (await http.get(f"{PATH}?sort=rate&order=desc")).get_json())
    assert (answer["unlisted"], answer["unheard"]) == (9, ["g3"])
    rows = {item["address"]: item for item in answer["items"]}
    # All gateways share the limit, so their rates are added up.
    assert list(rows)[:2] == ["10.0.0.7", "10.0.0.9"]
    assert (rows["10.0.0.7"]["use"]["rate"], rows["10.0.0.7"]["use"]["gateway"]) == (12, "")
    (there,) = rows["10.0.0.7"]["elsewhere"]
    assert (there["gateway"], there["rate"], there["connections"], there["refused"]) == ("g2", 19, 4, 1)
    assert (rows["10.0.0.8"]["use"], rows["10.0.0.8"]["elsewhere"][0]["gateway"]) == (None, "g2")
    assert rows["10.0.0.9"]["elsewhere"] == []
    assert await listed(http, "?filter=connected&search=10.0.0.8") == ["10.0.0.8"]
    assert await listed(http, "?filter=stopped") == ["10.0.0.7", "10.0.0.9"]
    assert await listed(http, "?sort=connections&order=desc&limit=1") == ["10.0.0.7"]
    one = ADDRESS.check(await (await http.get(f"{PATH}/10.0.0.8")).get_json())
    assert (one[IP_KEY], one["bound"]) == (None, 5)


async def test_a_limit_reaches_the_addresses_of_all_gateways(http: Browserless, broker: FakeBroker) -> None:
    broker.remote_shares.address_rows = [use("10.0.0.9", 50.0, connections=4, gateway="g2")]
    answer = EDITED.check(await (await put(http, f"{PATH}/10.0.0.9?validate_only=true", 20)).get_json())
    assert answer["reach"] == {"addresses": 1, "over": 1, "connections": 5, "from": 5, "to": 20}


async def test_a_temporary_limit_stands_beside_the_one_in_force(
    http: Browserless, broker: FakeBroker
) -> None:
    until = from_times(40.0, {"until": "2099-01-01T00:00:00Z"})
    begins = from_times(50.0, {"from": "2098-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"})
    broker.temporaries = {
        (("ip", "10.0.0.7"),): {IP_KEY: (until, "bea")},
        (("ip", "10.0.0.9"),): {IP_KEY: (begins, "bea")},
    }
    row = ADDRESS.check(await (await http.get(ONE)).get_json())
    temporary = row["temporary"]
    assert (row[IP_KEY], temporary["value"], temporary["permanent"], temporary["active"]) == (
        40,
        40,
        20,
        True,
    )
    assert (temporary["until"], temporary["changed_by"]) == ("2099-01-01T00:00:00.000Z", "bea")
    row = ADDRESS.check(await (await http.get(f"{PATH}/10.0.0.9")).get_json())
    assert (row[IP_KEY], row["bound"], row["temporary"]["active"]) == (None, 5, False)
    assert "temporary" not in await (await http.get(DEFAULT)).get_json()
    assert await listed(http, "?filter=default") == ["fe80::1"]
