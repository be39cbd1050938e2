"""GET /broker-quotas over a running broker, and the same limits changed by PATCH /broker-configs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from broker.controller.commands import BROKER_ITSELF, IssueAdminToken, Role
from broker.controller.tokens import hashed
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import console_config
from webui.backend import Backend
from webui.http.app import build_app, make_console
from webui.rest.broker_configs import BROKER_QUOTAS

PATH = "/api/v1/broker-quotas"
CONFIGS = "/api/v1/broker-configs"
PRODUCE = "broker.quota.produce.bytes"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


@pytest.fixture
async def http(broker: RunningBroker, mock_clock: MockClock) -> Browserless:
    server = broker.server
    views = server.views
    backend = Backend(
        server.control,
        views,
        hashed,
        lambda: "",
        lambda: True,
    )
    return Browserless(
        build_app(make_console(backend, console_config(), PORT)).test_client(use_cookies=False)
    )


async def token(broker: RunningBroker, role: Role) -> str:
    outcome = await broker.server.control.apply(IssueAdminToken(role.name, role), BROKER_ITSELF)
    return str(outcome.secret)


async def read(http: Browserless, secret: str) -> tuple[dict[str, Any], str]:
    answer = await http.get(PATH, token=secret)
    assert answer.status_code == 200
    body: dict[str, Any] = BROKER_QUOTAS.check(await answer.get_json())
    return body, answer.headers["ETag"]


def limit(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {each["key"]: each for each in body["limits"]}[key]


async def test_an_untouched_broker_has_no_limits(
    broker: RunningBroker, http: Browserless, mock_clock: MockClock
) -> None:
    body, etag = await read(http, await token(broker, Role.VIEWER))
    assert body["enabled"] is False
    assert [each["value"] for each in body["limits"]] == [None] * 4
    assert [each["names"] for each in body["white_lists"]] == [[], [], []]
    assert [(each["value"], each["count"]) for each in body["cluster"]] == [(None, 0), (None, 0)]
    assert body["retry_storm"] == {
        "enabled": False,
        "max_delay_ms": 1_000,
        "delayed": 0,
        "delayed_ms": 0,
        "waiting": 0,
    }
    assert etag == f'"{body["version"]}"'
    assert body["command"].endswith("--alter --entity-type brokers --entity-name 1")


async def test_a_limit_set_by_rest_holds_from_the_next_request_on_and_its_use_is_reported(
    broker: RunningBroker, http: Browserless, mock_clock: MockClock
) -> None:
    admin = await token(broker, Role.ADMIN)
    client = await broker.connect("one")
    await client.ask(create_topic(), 5)
    ops = [
        {"key": "broker.quota.enabled", "value": "true"},
        {"key": PRODUCE, "value": "1000"},
        {"key": "broker.quota.white.list.user", "value": "ann,bob"},
        {"key": "cluster.quota.topic.count", "value": "1"},
    ]
    _, before = await read(http, admin)
    dry = await http.patch(f"{CONFIGS}?validate_only=true", token=admin, body={"ops": ops})
    assert dry.status_code == 200
    assert (await read(http, admin))[0]["enabled"] is False
    done = await http.patch(CONFIGS, token=admin, body={"ops": ops}, If_Match=before)
    assert done.status_code == 200
    answer = await client.ask(produce_request_of(11_000, "one"), PRODUCE_VERSION)
    assert answer.throttle_time_ms == 1_000
    body, after = await read(http, admin)
    assert body["enabled"] is True
    assert after != before
    produce = limit(body, PRODUCE)
    assert (produce["kind"], produce["unit"], produce["value"]) == ("broker_produce", "bytes/s", 1_000)
    assert (produce["observed"], produce["throttled"]) == (1_100, 1)
    assert (produce["throttles"], produce["throttle_ms"]) == (1, 1_000)
    assert body["white_lists"][0] == {"key": "broker.quota.white.list.user", "names": ["ann", "bob"]}
    topics, partitions = body["cluster"]
    assert topics == {"key": "cluster.quota.topic.count", "value": 1, "count": 1}
    assert partitions["count"] == 1
    throttled = (await (await http.get("/api/v1/throttled-channels", token=admin)).get_json())["items"]
    assert throttled[0]["quota_type"] == "broker_produce"
    assert throttled[0]["entity"] == {}
    assert throttled[0]["tags"] == [{"name": "broker quota", "value": "produce bytes"}]
    stale = await http.patch(CONFIGS, token=admin, body={"ops": ops}, If_Match=before)
    assert stale.status_code == 412


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
async def test_only_an_administrator_changes_them(
    broker: RunningBroker, http: Browserless, mock_clock: MockClock, role: Role
) -> None:
    ops = [{"key": PRODUCE, "value": "1000"}]
    answer = await http.patch(CONFIGS, token=await token(broker, role), body={"ops": ops})
    assert answer.status_code == 403


async def test_a_value_out_of_range_is_refused_with_key_value_and_range(
    broker: RunningBroker, http: Browserless, mock_clock: MockClock
) -> None:
    ops = [{"key": PRODUCE, "value": "0"}]
    answer = await http.patch(CONFIGS, token=await token(broker, Role.ADMIN), body={"ops": ops})
    assert answer.status_code == 400
    detail = (await answer.get_json())["detail"]
    assert detail == f"Invalid value 0 for configuration {PRODUCE}: must be a number from 1 on"
