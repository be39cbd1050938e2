"""Every route of the REST API, asked with a token of every role: what is refused is refused by control.

In front of the real `Control` and its store, so that the answer is the broker's and not a fake's.
"""

from collections.abc import AsyncIterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from broker.controller.alerts import (
    AlertCondition,
    AlertRule,
    AlertSilence,
    DestinationKind,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
)
from broker.controller.commands import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    CloseConnection,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateAcls,
    CreateTopics,
    IncrementalAlterConfigs,
    IssueAdminToken,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
)
from broker.controller.control import plan_close
from broker.controller.delegation_tokens import CreateDelegationToken
from broker.controller.scram import upsertion_of
from broker.controller.tokens import hashed
from broker.metadata.actor import Role
from broker.security.acl.acl import Operation
from tests.controller.world import AUTHORIZER, actor
from tests.security.acl.acls import allow
from tests.webui.conftest import PORT, Browserless
from tests.webui.fake_delegation_tokens import TOKENS_ENABLED
from tests.webui.fakes import console_config
from tests.webui.log_world import LogWorld
from tests.webui.rest.test_insights_what_if import Played
from webui.backend import Backend
from webui.http import app
from webui.http.app import build_app, make_console
from webui.rest.acls import id_of
from webui.rest.routes import ROUTES
from webui.rest.routing import Route

SECRETS = {Role.VIEWER: "of-a-viewer", Role.EDITOR: "of-an-editor", Role.ADMIN: "of-an-administrator"}
ALICE = {"entity": {"user": "alice"}, "ops": [{"key": "producer_byte_rate", "value": 7}]}
LIMITED = {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 7}}
READ_ACL = allow(Operation.READ)
WRITE_ACL = {
    "resource_type": "TOPIC",
    "name": "orders",
    "principal": "User:alice",
    "operation": "WRITE",
    "permission": "ALLOW",
}


class Asked(NamedTuple):
    """The least role that may, and a request that makes sense."""

    needed: Role
    path: str
    body: Any = None


RECORD = "getRecord"
"""Read with GET by those who may read records."""

OF_GATEWAYS = "drainGateway"
"""A broker answers it with 404; see test_upstream."""

CHANGES = {
    "alterClientQuotas": Asked(Role.EDITOR, "/api/v1/client-quotas", {"entries": [ALICE]}),
    "setClientQuota": Asked(
        Role.EDITOR, "/api/v1/client-quotas/user=alice", {"limits": {"producer_byte_rate": 7}}
    ),
    "removeClientQuota": Asked(Role.EDITOR, "/api/v1/client-quotas/user=alice"),
    "importClientQuotas": Asked(Role.EDITOR, "/api/v1/client-quotas:import", {"quotas": [LIMITED]}),
    "setIpQuota": Asked(Role.EDITOR, "/api/v1/ip-quotas/10.0.0.8", {"connection_creation_rate": 1}),
    "removeIpQuota": Asked(Role.EDITOR, "/api/v1/ip-quotas/10.0.0.7"),
    "undoChange": Asked(Role.EDITOR, "/api/v1/audit/{quota}:undo"),
    "closeConnection": Asked(Role.EDITOR, "/api/v1/connections/here"),
    "setClientMetrics": Asked(Role.EDITOR, "/api/v1/client-metrics/new", {"metrics": ["*"]}),
    "removeClientMetrics": Asked(Role.EDITOR, "/api/v1/client-metrics/all"),
    "alterBrokerConfigs": Asked(
        Role.ADMIN, "/api/v1/broker-configs", {"ops": [{"key": "num.io.threads", "value": "9"}]}
    ),
    "setRequestLog": Asked(
        Role.ADMIN, "/api/v1/request-log", {"apis": ["Fetch"], "client_ids": [], "max_per_second": 1}
    ),
    "issueToken": Asked(Role.ADMIN, "/api/v1/tokens", {"name": "new", "role": "admin"}),
    "renewToken": Asked(Role.ADMIN, "/api/v1/tokens/spare:renew", {"expires_in_ms": None}),
    "revokeToken": Asked(Role.ADMIN, "/api/v1/tokens/spare"),
    "importClientMetrics": Asked(
        Role.EDITOR, "/api/v1/client-metrics:import", {"subscriptions": [{"name": "new", "metrics": ["*"]}]}
    ),
    "setAlertRule": Asked(Role.EDITOR, "/api/v1/alert-rules/new", {"condition": "lag", "threshold": 1}),
    "setAlertSilence": Asked(Role.EDITOR, "/api/v1/alert-silences/new", {"lasts_ms": 60_000}),
    "removeAlertSilence": Asked(Role.EDITOR, "/api/v1/alert-silences/works"),
    "removeAlertRule": Asked(Role.EDITOR, "/api/v1/alert-rules/lag"),
    "setAlertDestination": Asked(
        Role.ADMIN, "/api/v1/alert-destinations/new", {"kind": "webhook", "url": "https://a.example/"}
    ),
    "removeAlertDestination": Asked(Role.ADMIN, "/api/v1/alert-destinations/hook"),
    "setScramUser": Asked(Role.ADMIN, "/api/v1/scram-users/SCRAM-SHA-256/bob", {"password": "secret"}),
    "removeScramUser": Asked(Role.ADMIN, "/api/v1/scram-users/SCRAM-SHA-256/ann"),
    "expireDelegationToken": Asked(Role.ADMIN, "/api/v1/delegation-tokens/{token}"),
    "createAcl": Asked(Role.ADMIN, "/api/v1/acls", WRITE_ACL),
    "deleteAcl": Asked(Role.ADMIN, f"/api/v1/acls/{id_of(READ_ACL)}"),
    "setPassword": Asked(Role.ADMIN, "/api/v1/tokens/spare:password", {"password": "a good password"}),
    "createTopic": Asked(Role.EDITOR, "/api/v1/topics", {"name": "new"}),
    "deleteTopic": Asked(Role.ADMIN, "/api/v1/topics/orders"),
    "setPartitions": Asked(Role.EDITOR, "/api/v1/topics/orders/partitions", {"count": 2}),
    "alterTopicConfigs": Asked(
        Role.EDITOR, "/api/v1/topics/orders/configs", {"ops": [{"key": "retention.ms", "value": "5"}]}
    ),
    "browseRecords": Asked(Role.EDITOR, "/api/v1/topics/orders/records:browse", {}),
    "produceRecord": Asked(Role.EDITOR, "/api/v1/topics/orders/records", {"value": None}),
    RECORD: Asked(Role.EDITOR, "/api/v1/topics/orders/partitions/0/records/0"),
    "resetGroupOffsets": Asked(Role.EDITOR, "/api/v1/groups/readers/offsets:reset", {"to": {"latest": True}}),
    "abortTransaction": Asked(Role.ADMIN, "/api/v1/transactions/payments:abort", {}),
    "deleteGroup": Asked(Role.EDITOR, "/api/v1/groups/readers"),
    "deleteGroupOffsets": Asked(Role.EDITOR, "/api/v1/groups/readers/offsets?topic=orders"),
}
QUESTIONS = {
    "resolveClientQuotasIf": Asked(Role.VIEWER, "/api/v1/client-quotas:resolve", {"if": [ALICE]}),
    "testAlertDestination": Asked(Role.ADMIN, "/api/v1/alert-destinations/hook:test"),
    "endSessions": Asked(Role.VIEWER, "/api/v1/sessions"),
    "simulateWhatIf": Asked(
        Role.VIEWER, "/api/v1/insights/what-if", {"from": "2026-01-10", "quotas": [LIMITED]}
    ),
}
"""Not read with GET, and changing nothing in the metadata."""

OWN = "setPassword"
"""Everybody may set a password of their own."""

WITH_BODY = [route for route in ROUTES if route.body is not None]
MEDIA = ("application/json", "application/yaml", "text/plain", "multipart/form-data; boundary=x")

READING = [
    route for route in ROUTES if route.method == "GET" and route.operation not in ("streamEvents", RECORD)
]
DEMANDING = [
    route
    for route in ROUTES
    if (route.method != "GET" or route.operation == RECORD) and route.operation != OF_GATEWAYS
]


class OneConnection:
    def __init__(self) -> None:
        self.open = True

    def client_of(self, connection_id: str) -> str | None:
        return "a client" if connection_id == "here" else None

    def close_connection(self, connection_id: str) -> None:
        self.open = False


class Real:
    """A console in front of a real control, with something of everything to change."""

    def __init__(self, world: LogWorld) -> None:
        self.world = world
        self.control = world.control
        self.connection = OneConnection()
        self.control.add_planner(CloseConnection, partial(plan_close, self.connection))
        views = world.views
        backend = Backend(
            self.control,
            views,
            hashed,
            lambda: "",
            lambda: True,
        )
        settings = console_config(browse_role="editor")
        console = replace(make_console(backend, settings, PORT), what_if=Played())
        self.http = Browserless(build_app(console).test_client(use_cookies=False))
        self.quota_seq = 0
        self.delegated = ""

    async def fill(self) -> None:
        for role, secret in SECRETS.items():
            await self.control.apply(IssueAdminToken(role.name, role, secret), actor())
        await self.control.apply(IssueAdminToken("spare", Role.VIEWER), actor())
        await self.control.apply(CreateTopics((NewTopic("orders", 1, 1),)), actor())
        self.world.append("orders", ("a key", "a value"))
        self.world.commit("readers", "orders", 0)
        self.world.transact("payments", ("orders", 0))
        for entity, key in (
            ((("ip", "10.0.0.7"),), "connection_creation_rate"),
            ((("user", "alice"),), "producer_byte_rate"),
        ):
            change = QuotaAlteration(entity, (QuotaOp(key, 5.0),))
            await self.control.apply(AlterClientQuotas((change,)), actor())
        self.quota_seq = self.control.image.version
        ann = upsertion_of("ann", "SCRAM-SHA-256", "secret", 4_096, None)
        await self.control.apply(AlterUserScramCredentials((ann,)), actor())
        await self.control.apply(CreateAcls((READ_ACL,)), actor())
        create = CreateDelegationToken("User:ann", (), -1, self.world.clock.wall_ms())
        self.delegated = (await self.control.apply(create, actor())).token_id
        hook = SetAlertDestination("hook", DestinationKind.WEBHOOK, "https://a.example/")
        await self.control.apply(hook, actor())
        lag = AlertRule(AlertCondition.LAG, 1.0)
        await self.control.apply(SetAlertRule("lag", lag), actor())
        await self.control.apply(SetAlertSilence("works", AlertSilence(2**52)), actor())
        interval = ConfigOp("interval.ms", OpType.SET, "60000")
        subscription = ConfigAlteration(ConfigResource(ResourceType.CLIENT_METRICS, "all"), (interval,))
        await self.control.apply(IncrementalAlterConfigs((subscription,)), actor())

    async def ask(self, route: Route, request: Asked, role: Role) -> int:
        path = request.path.replace("{quota}", str(self.quota_seq)).replace("{token}", self.delegated)
        answer = await self.http.ask(route.method, path, token=SECRETS[role], body=request.body)
        return answer.status_code


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    world = LogWorld(tmp_path, AUTHORIZER, TOKENS_ENABLED)
    made = Real(world)
    await made.fill()
    yield made
    world.close()


@pytest.mark.rotates
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("route", DEMANDING, ids=lambda route: route.operation)
async def test_a_route_does_what_the_role_may_and_nothing_else(real: Real, route: Route, role: Role) -> None:
    request = (CHANGES | QUESTIONS)[route.operation]
    before = real.control.image
    status = await real.ask(route, request, role)
    if role < request.needed:
        assert status == 403
        assert real.control.image is before and real.connection.open
    else:
        assert status in (200, 201, 204)
        assert (real.control.image is before) == (route.operation in QUESTIONS)


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.operation)
async def test_the_body_of_who_may_not_is_not_read(
    real: Real, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of YAML took 97 MB before the role was asked."""
    read: list[Role] = []

    async def note(_request: object) -> bytes:
        read.append(role)
        return b""

    monkeypatch.setattr(app, "body_of", note)
    request = (CHANGES | QUESTIONS)[route.operation]
    needed = Role.VIEWER if route.operation == OWN else request.needed
    for role, media in product(Role, MEDIA):
        read.clear()
        answer = await real.http.ask(
            route.method, request.path, token=SECRETS[role], body=b"a: a\n", Content_Type=media
        )
        if role < needed:
            refused = await answer.get_json()
            assert (answer.status_code, read) == (403, []), media
            assert refused["detail"].endswith(f"this operation requires the role {needed.name.lower()}")
        else:
            assert answer.status_code in (400, 415), media
            assert (read == [role]) == (answer.status_code == 400), media


def test_only_short_bodies_are_read_before_the_role_is_known() -> None:
    asked = CHANGES | QUESTIONS
    for route in WITH_BODY:
        if route.role is Role.VIEWER and asked[route.operation].needed > Role.VIEWER:
            assert route.operation == OWN and not route.has_list


@pytest.mark.rotates
@pytest.mark.parametrize("route", READING, ids=lambda route: route.operation)
async def test_every_role_may_look(real: Real, route: Route) -> None:
    names = {
        "{name}": "orders",
        "{id}": "here",
        "{group}": "none",
        "{address}": "10.0.0.7",
        "{instance}": "AAAAAAAAAAAAAAAAAAAAAA",
        "{mechanism}": "SCRAM-SHA-256",
        "{user}": "ann",
    }
    path = route.path
    for place, name in names.items():
        path = path.replace(place, name)
    for role in Role:
        assert await real.ask(route, Asked(Role.VIEWER, path), role) not in (401, 403)
