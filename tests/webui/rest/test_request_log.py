"""Which requests are logged, as the REST API shows and sets it."""

from typing import Any

import pytest

from broker.controller.commands import ConfigOp, ConfigResource, OpType, ResourceType
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from webui.rest.broker_configs import REFUSED_LOG, REQUEST_LOG

OFF = {"apis": [], "client_ids": [], "max_per_second": 100}


async def test_settings_in_force_are_shown(http: Browserless, broker: FakeBroker) -> None:
    broker.configs |= {"request.log.apis": "Produce,Fetch", "request.log.client.ids": "app"}
    answer = REQUEST_LOG.check(await (await http.get("/api/v1/request-log", token="viewer-token")).get_json())
    assert answer == {"apis": ["Produce", "Fetch"], "client_ids": ["app"], "max_per_second": 100}


async def test_a_change_is_one_of_the_brokers_settings(http: Browserless, broker: FakeBroker) -> None:
    wanted = {"apis": ["Produce", "*"], "client_ids": ["app"], "max_per_second": 7}
    answer = await http.ask("PUT", "/api/v1/request-log", body=wanted)
    assert answer.status_code == 200 and REQUEST_LOG.check(await answer.get_json()) == wanted
    ((alteration, actor),) = broker.altered
    assert actor.name == "root"
    assert alteration.resource == ConfigResource(ResourceType.BROKER, "1")
    assert alteration.ops == (
        ConfigOp("request.log.apis", OpType.SET, "Produce,*"),
        ConfigOp("request.log.client.ids", OpType.SET, "app"),
        ConfigOp("request.log.max.per.second", OpType.SET, "7"),
    )
    assert await (await http.ask("PUT", "/api/v1/request-log", body=OFF)).get_json() == OFF


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
async def test_only_an_administrator_may_change_it(http: Browserless, broker: FakeBroker, token: str) -> None:
    answer = await http.ask("PUT", "/api/v1/request-log", body=OFF | {"apis": ["*"]}, token=token)
    assert answer.status_code == 403
    assert broker.configs["request.log.apis"] == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"apis": ["a,b"]},
        {"apis": [""]},
        {"client_ids": [" app"]},
        {"client_ids": ["x" * 257]},
        {"client_ids": ["x"] * 101},
        {"apis": "Produce"},
        {"max_per_second": 0},
        {"max_per_second": 10_001},
        {"more": 1},
    ],
)
async def test_invalid_settings_change_nothing(
    http: Browserless, broker: FakeBroker, wrong: dict[str, Any]
) -> None:
    assert (await http.ask("PUT", "/api/v1/request-log", body=OFF | wrong)).status_code == 400
    assert broker.altered == []


async def test_a_refusal_of_the_broker_is_passed_on(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.ask("PUT", "/api/v1/request-log", body=OFF | {"apis": ["Konsume"]})
    assert answer.status_code == 400
    assert "Konsume" in (await answer.get_json())["detail"]


async def test_a_change_of_what_was_read_does_not_overwrite_what_came_after(
    http: Browserless, broker: FakeBroker
) -> None:
    path, wanted = "/api/v1/request-log", OFF | {"apis": ["Produce"]}
    tag = (await http.get(path)).headers["ETag"]
    first = await http.ask("PUT", path, body=wanted, If_Match=tag)
    again = await http.ask("PUT", path, body=OFF, If_Match=tag)
    assert (first.status_code, again.status_code) == (200, 412)
    assert REFUSED_LOG.check(await again.get_json())["current"] == wanted
    assert broker.configs["request.log.apis"] == "Produce"
    assert (await http.ask("PUT", path, body=OFF, If_Match=first.headers["ETag"])).status_code == 200
