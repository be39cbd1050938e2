"""Every route of the REST API, asked with a token of every role: what is refused is refused by control.

In front of the real `Control` and its store, so that the answer is the broker's and not a fake's.
"""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from broker.config.load import load
from broker.config.sections import TelemetryConfig
from broker.control.alerts import (
    AlertCondition,
    AlertRule,
    DestinationKind,
    SetAlertDestination,
    SetAlertRule,
)
from broker.control.closing import CloseConnection, plan_close
from broker.control.commands import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateTopics,
    IncrementalAlterConfigs,
    IssueAdminToken,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
)
from broker.control.control import Control
from broker.control.scram import upsertion_of
from broker.control.tokens import hashed
from broker.control.views import ServerInfo, Views
from broker.metadata.actor import Role
from broker.metadata.store import MetadataStore
from broker.telemetry.state import Telemetry
from tests.control.live import Live
from tests.control.world import StoreCommitter, actor
from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import FakeSettings
from tests.webui.rest.test_insights_what_if import Played
from webui.backend import Backend
from webui.http.app import build_app, make_console
from webui.rest.routes import ROUTES
from webui.rest.routing import Route

SECRETS = {Role.VIEWER: "of-a-viewer", Role.EDITOR: "of-an-editor", Role.ADMIN: "of-an-administrator"}
ALICE = {"entity": {"user": "alice"}, "ops": [{"key": "producer_byte_rate", "value": 7}]}
LIMITED = {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 7}}


class Asked(NamedTuple):
    """The least role that may, and a request that makes sense."""

    needed: Role
    path: str
    body: Any = None


CHANGES = {
    "alterClientQuotas": Asked(Role.EDITOR, "/api/v1/client-quotas", {"entries": [ALICE]}),
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
    "removeAlertRule": Asked(Role.EDITOR, "/api/v1/alert-rules/lag"),
    "setAlertDestination": Asked(
        Role.ADMIN, "/api/v1/alert-destinations/new", {"kind": "webhook", "url": "https://a.example/"}
    ),
    "removeAlertDestination": Asked(Role.ADMIN, "/api/v1/alert-destinations/hook"),
    "setScramUser": Asked(Role.ADMIN, "/api/v1/scram-users/SCRAM-SHA-256/bob", {"password": "secret"}),
    "removeScramUser": Asked(Role.ADMIN, "/api/v1/scram-users/SCRAM-SHA-256/ann"),
    "setPassword": Asked(Role.ADMIN, "/api/v1/tokens/spare:password", {"password": "a good password"}),
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

READING = [route for route in ROUTES if route.method == "GET" and route.operation != "streamEvents"]
DEMANDING = [route for route in ROUTES if route.method != "GET"]


class OneConnection:
    def __init__(self) -> None:
        self.open = True

    def client_of(self, connection_id: str) -> str | None:
        return "a client" if connection_id == "here" else None

    def close_connection(self, connection_id: str) -> None:
        self.open = False


class Real:
    """A console in front of a real control, with something of everything to change."""

    def __init__(self, store: MetadataStore) -> None:
        self.committer = StoreCommitter(store)
        self.control = Control(store.image, load(None, [], {}), self.committer)
        self.connection = OneConnection()
        self.control.add_planner(CloseConnection, partial(plan_close, self.connection))
        info = ServerInfo(1, "weir 1", ("127.0.0.1:9092",), "http://127.0.0.1:8080/")
        telemetry = Telemetry(TelemetryConfig())
        views = Views(self.control, Live(), self.committer, lambda: info, telemetry)
        backend = Backend(
            self.control, views, views.identify, views.credentials_of, hashed, lambda: "", lambda: True
        )
        console = replace(make_console(backend, FakeSettings(), PORT), what_if=Played())
        self.http = Browserless(build_app(console).test_client(use_cookies=False))
        self.quota_seq = 0

    async def fill(self) -> None:
        for role, secret in SECRETS.items():
            await self.control.apply(IssueAdminToken(role.name, role, secret), actor())
        await self.control.apply(IssueAdminToken("spare", Role.VIEWER), actor())
        await self.control.apply(CreateTopics((NewTopic("orders", 1, 1),)), actor())
        for entity, key in (
            ((("ip", "10.0.0.7"),), "connection_creation_rate"),
            ((("user", "alice"),), "producer_byte_rate"),
        ):
            change = QuotaAlteration(entity, (QuotaOp(key, 5.0),))
            await self.control.apply(AlterClientQuotas((change,)), actor())
        self.quota_seq = self.control.image.version
        ann = upsertion_of("ann", "SCRAM-SHA-256", "secret", 4_096, None)
        await self.control.apply(AlterUserScramCredentials((ann,)), actor())
        hook = SetAlertDestination("hook", DestinationKind.WEBHOOK, "https://a.example/")
        await self.control.apply(hook, actor())
        lag = AlertRule(AlertCondition.LAG, 1.0)
        await self.control.apply(SetAlertRule("lag", lag), actor())
        interval = ConfigOp("interval.ms", OpType.SET, "60000")
        subscription = ConfigAlteration(ConfigResource(ResourceType.CLIENT_METRICS, "all"), (interval,))
        await self.control.apply(IncrementalAlterConfigs((subscription,)), actor())

    async def ask(self, route: Route, request: Asked, role: Role) -> int:
        path = request.path.replace("{quota}", str(self.quota_seq))
        answer = await self.http.ask(route.method, path, token=SECRETS[role], body=request.body)
        return answer.status_code


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    store = MetadataStore.open(tmp_path / "metadata.sqlite", 1)
    made = Real(store)
    await made.fill()
    yield made
    store.close()


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
