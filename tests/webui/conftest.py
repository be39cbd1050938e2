"""A console on a made-up broker, asked in-process."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import trio
from quart import Response
from quart.typing import TestClientProtocol

from broker.common import slices
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.polls import Polls, WorkClock
from webui.console import Console
from webui.http.app import MatchedRule, build_app, make_console
from webui.tables import slices as row_slices

PORT = 8080
OWN_HOST = f"weir-{PORT}.localhost:{PORT}"


@dataclass
class Clock:
    """Milliseconds, moved by hand."""

    ms: int = 1_000_000

    def __call__(self) -> int:
        return self.ms


@dataclass
class Browserless:
    """An HTTP client without a network. `token` None asks without credentials."""

    client: TestClientProtocol

    async def ask(
        self, method: str, path: str, *, token: str | None = "admin-token", body: Any = None, **headers: str
    ) -> Response:
        """Header names are given with underscores: `If_Match`. The Host is that of the pages unless given."""
        given = {"Host": OWN_HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        arguments: dict[str, Any] = {"method": method, "headers": given}
        if isinstance(body, bytes):
            arguments["data"] = body
        elif body is not None:
            arguments["json"] = body
        return await self.client.open(path, **arguments)

    async def get(self, path: str, **rest: Any) -> Response:
        return await self.ask("GET", path, **rest)

    async def patch(self, path: str, body: Any, **rest: Any) -> Response:
        return await self.ask("PATCH", path, body=body, **rest)


@pytest.fixture(autouse=True, scope="session")
def _each_url_rule_is_compiled_once() -> Iterator[None]:
    """Compiling 150 rules takes most of the time of building an app, and each test builds one."""
    compiled: dict[tuple[object, ...], dict[str, Any]] = {}
    compile_rule = MatchedRule.compile

    def compile_once(rule: MatchedRule) -> None:
        key = (rule.rule, rule.subdomain, rule.host, rule.merge_slashes)
        if key not in compiled:
            compile_rule(rule)
            compiled[key] = {name: getattr(rule, name) for name in COMPILED}
        for name, value in compiled[key].items():
            setattr(rule, name, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatchedRule, "compile", compile_once)
        yield


COMPILED: Final = ("_parts", "_trace", "_converters", "arguments", "_build", "_build_unknown")
"""What werkzeug's Rule.compile sets, and later only reads."""


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def console(broker: FakeBroker, clock: Clock) -> Console:
    return make_console(
        broker.backend(), console_config(), PORT, now_ms=lambda: broker.now_ms, uptime_ms=clock
    )


@pytest.fixture
def http(console: Console) -> Browserless:
    return Browserless(build_app(console).test_client(use_cookies=False))


@pytest.fixture
def work_clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    clock = WorkClock()
    for module in (slices, row_slices):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
async def polls() -> Polls:
    polls = Polls()
    await trio.lowlevel.checkpoint()
    trio.lowlevel.add_instrument(polls)
    return polls
