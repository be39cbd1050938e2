"""GET and PATCH /broker-configs over a running broker, the same settings as over the Kafka protocol."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.controller.commands import BROKER_ITSELF, IssueAdminToken, Role
from broker.controller.tokens import hashed
from tests.support.live import alter_through
from tests.support.running import RunningBroker, running_broker
from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import console_config
from webui.backend import Backend
from webui.http.app import build_app, make_console
from webui.rest.broker_configs import ALTERED, CONFIG_PAGE, REFUSED

PATH = "/api/v1/broker-configs"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hush";'
SECRET = "listener.name.safe.plain.sasl.jaas.config"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "num.partitions=3", f"{SECRET}={JAAS}") as running:
        yield running


async def tokens(broker: RunningBroker) -> dict[str, str]:
    control = broker.server.control
    return {
        role.name: (await control.apply(IssueAdminToken(role.name, role), BROKER_ITSELF)).secret
        for role in Role
    }


@pytest.fixture
async def http(broker: RunningBroker) -> Browserless:
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


async def listed(http: Browserless, token: str, query: str = "") -> dict[str, dict[str, Any]]:
    answer = await http.get(PATH + query, token=token)
    assert answer.status_code == 200
    items = CONFIG_PAGE.check(await answer.get_json())["items"]
    return {item["name"]: item for item in items}


async def test_keys_of_gateways_are_listed_only_where_they_are_set(
    broker: RunningBroker, http: Browserless
) -> None:
    found = await tokens(broker)
    assert await listed(http, found["VIEWER"], "?search=upstream.&limit=1000") == {}
    assert await listed(http, found["VIEWER"], "?search=gateway.&limit=1000") == {}
    ops = [{"key": "upstream.sasl.jaas.config", "value": JAAS}]
    answer = await http.patch(PATH, {"ops": ops}, token=found["ADMIN"])
    assert answer.status_code == 200
    assert list(await listed(http, found["VIEWER"], "?search=upstream.")) == ["upstream.sasl.jaas.config"]


async def test_settings_are_listed_with_the_place_that_they_come_from(
    broker: RunningBroker, http: Browserless
) -> None:
    viewer = (await tokens(broker))["VIEWER"]
    client = await broker.connect()
    assert await alter_through(client, {"num.io.threads": "9"}) == (0, None)
    assert await alter_through(client, {"num.io.threads": "10", "log.retention.ms": "5"}, "") == (0, None)
    found = await listed(http, viewer)
    sources = {
        name: found[name]["source"] for name in ("num.io.threads", "log.retention.ms", "num.partitions")
    }
    assert sources == {
        "num.io.threads": "dynamic-broker",
        "log.retention.ms": "dynamic-default",
        "num.partitions": "file",
    }
    threads = found["num.io.threads"]
    assert (threads["value"], threads["dynamic"], threads["type"]) == ("9", True, "int")
    assert [(each["value"], each["source"]) for each in threads["synonyms"]] == [
        ("9", "dynamic-broker"),
        ("10", "dynamic-default"),
        ("8", "default"),
    ]
    assert not found["num.partitions"]["dynamic"]
    assert found[SECRET]["value"] is None and found[SECRET]["sensitive"]
    assert "hush" not in json.dumps(found)
    assert set(await listed(http, viewer, "?level=default")) == {"num.io.threads", "log.retention.ms"}
    assert "num.partitions" not in await listed(http, viewer, "?dynamic=true")
    assert set(await listed(http, viewer, "?search=IO.THREADS")) == {"num.io.threads"}


async def test_a_change_holds_and_is_answered_and_can_be_taken_back(
    broker: RunningBroker, http: Browserless
) -> None:
    admin = (await tokens(broker))["ADMIN"]
    ops = [{"key": "num.io.threads", "value": "9"}, {"key": "log.cleanup.policy", "append": "compact"}]
    answer = await http.patch(PATH, {"ops": ops}, token=admin)
    assert answer.status_code == 200
    items = {item["name"]: item for item in ALTERED.check(await answer.get_json())["items"]}
    assert (items["num.io.threads"]["value"], items["log.cleanup.policy"]["value"]) == ("9", "delete,compact")
    assert broker.server.socket_server.handlers.size == 9
    back = [{"key": "num.io.threads", "remove": True}, {"key": "log.cleanup.policy", "subtract": "delete"}]
    assert (await http.patch(PATH, {"ops": back}, token=admin)).status_code == 200
    assert broker.server.socket_server.handlers.size == 8
    assert broker.server.control.config.topic_settings.cleanup_policy == ("compact",)


async def test_the_default_of_all_brokers_is_a_level_of_its_own(
    broker: RunningBroker, http: Browserless
) -> None:
    admin = (await tokens(broker))["ADMIN"]
    body = {"level": "default", "ops": [{"key": "num.io.threads", "value": "9"}]}
    assert (await http.patch(PATH, body, token=admin)).status_code == 200
    assert broker.server.control.image.broker_configs == {"": {"num.io.threads": "9"}}


async def test_validating_only_changes_nothing(broker: RunningBroker, http: Browserless) -> None:
    admin = (await tokens(broker))["ADMIN"]
    body = {"ops": [{"key": "num.io.threads", "value": "9"}]}
    assert (await http.patch(PATH + "?validate_only=true", body, token=admin)).status_code == 200
    assert broker.server.control.image.broker_configs == {}


@pytest.mark.parametrize(
    ("token", "ops", "status", "words"),
    [
        ("EDITOR", [{"key": "num.io.threads", "value": "9"}], 403, "requires the role admin"),
        ("ADMIN", [{"key": "num.io.threads", "value": "99"}], 400, "double the current value 8"),
        ("ADMIN", [{"key": "num.partitions", "value": "9"}], 400, "Cannot update these configs dynamically"),
        (
            "ADMIN",
            [{"key": "log.retention.ms", "value": "9"}, {"key": "num.io.threads", "value": "x"}],
            400,
            "whole number",
        ),
        ("ADMIN", [{"key": "num.io.threads", "value": 9}], 400, "must be a string"),
        ("ADMIN", [{"key": "num.io.threads"}], 400, "must be"),
        ("ADMIN", [], 400, "1 to 100 elements"),
    ],
)
async def test_a_refused_edit_is_refused_whole(
    broker: RunningBroker, http: Browserless, token: str, ops: list[Any], status: int, words: str
) -> None:
    answer = await http.patch(PATH, {"ops": ops}, token=(await tokens(broker))[token])
    assert answer.status_code == status
    assert words in (await answer.get_json())["detail"]
    assert broker.server.control.image.broker_configs == {}


async def test_an_unknown_key_of_a_client_is_shown_without_its_value_and_can_be_removed(
    broker: RunningBroker, http: Browserless
) -> None:
    admin = (await tokens(broker))["ADMIN"]
    client = await broker.connect()
    assert await alter_through(client, {"no.such.key": "hush"}) == (0, None)
    found = (await listed(http, admin, "?dynamic=true"))["no.such.key"]
    assert (found["value"], found["type"], found["sensitive"]) == (None, "unknown", True)
    mistake = {"ops": [{"key": "no.such.kez", "value": "1"}]}
    assert (await http.patch(PATH, mistake, token=admin)).status_code == 400
    removal = {"ops": [{"key": "no.such.key", "remove": True}]}
    assert (await http.patch(PATH, removal, token=admin)).status_code == 200
    assert broker.server.control.image.broker_configs == {}


async def test_settings_with_a_concurrent_change_are_not_overwritten_unseen(
    broker: RunningBroker, http: Browserless
) -> None:
    admin = (await tokens(broker))["ADMIN"]
    client = await broker.connect()
    seen = (await http.get(PATH, token=admin)).headers["ETag"]
    assert seen == '"0"'
    body = {"ops": [{"key": "num.io.threads", "value": "9"}]}
    answer = await http.patch(PATH, body, token=admin, If_Match=seen)
    mine = answer.headers["ETag"]
    assert answer.status_code == 200 and mine != seen
    # A setting of all brokers may be what this one goes by.
    assert await alter_through(client, {"num.io.threads": "10"}, "") == (0, None)
    body = {"ops": [{"key": "num.io.threads", "remove": True}]}
    answer = await http.patch(PATH, body, token=admin, If_Match=mine)
    assert answer.status_code == 412 and answer.content_type == "application/problem+json"
    (current,) = REFUSED.check(await answer.get_json())["current"]
    assert [(each["value"], each["source"]) for each in current["synonyms"]][:2] == [
        ("9", "dynamic-broker"),
        ("10", "dynamic-default"),
    ]
    assert broker.server.socket_server.handlers.size == 9
    now = (await http.get(PATH, token=admin)).headers["ETag"]
    assert (await http.patch(PATH, body, token=admin, If_Match=now)).status_code == 200
    assert broker.server.socket_server.handlers.size == 10


async def test_settings_of_all_brokers_have_a_version_of_their_own(
    broker: RunningBroker, http: Browserless
) -> None:
    admin = (await tokens(broker))["ADMIN"]
    await http.patch(PATH, {"ops": [{"key": "num.io.threads", "value": "9"}]}, token=admin)
    tag = (await http.get(PATH + "?level=default", token=admin)).headers["ETag"]
    assert tag == '"0"'
    body = {"level": "default", "ops": [{"key": "num.io.threads", "value": "10"}]}
    assert (await http.patch(PATH, body, token=admin, If_Match=tag)).status_code == 200
    assert (await http.patch(PATH, body, token=admin, If_Match=tag)).status_code == 412
    assert (await http.patch(PATH, body, token=admin, If_Match="W/1")).status_code == 400
