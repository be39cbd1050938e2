"""Two gateways whose rules, subscriptions, tokens and audit are one log in the upstream cluster."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.common.errors import ConfigError, ErrorCode
from broker.config.load import load
from broker.controller.commands import AlterClientQuotas, IssueAdminToken, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF, Role
from broker.metadata.changes import AuditFilter
from broker.network.clock import TrioClock
from broker.server import gateway as gateway_server
from broker.server.gateway import GatewayServer
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import CLUSTER_KEY, RunningGateway, running_gateway

WITHIN_S = 20.0
"""Much more than the two seconds in which a change is enforced at all gateways of an idle machine."""

SCOPE = "quota.scope=cluster"


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    # The upstream broker of these tests is Weir, whose own topics no client may write.
    monkeypatch.setattr(gateway_server, "METADATA_TOPIC", "gateways-metadata")
    monkeypatch.setattr(gateway_server, "SHARES_TOPIC", "gateways-shares")


@asynccontextmanager
async def two(tmp_path: Path) -> AsyncIterator[tuple[RunningBroker, RunningGateway, RunningGateway]]:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, "node.id=1") as one,
        running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=2") as two,
    ):
        yield broker, one, two


def rule(client_id: str, limit: int | None) -> AlterClientQuotas:
    return AlterClientQuotas(
        (QuotaAlteration((("client-id", client_id),), (QuotaOp("producer_byte_rate", limit),)),)
    )


def bound(gateway: RunningGateway, client_id: str) -> float:
    return gateway.server.quotas.produce.bound("", client_id)


async def soon(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(0.01)


async def test_a_change_at_one_gateway_is_enforced_at_the_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, one, other):
        await one.server.control.apply(rule("app", 1_000), BROKER_ITSELF)
        assert bound(one, "app") == 1_000
        await soon(lambda: bound(other, "app") == 1_000)
        await other.server.control.apply(rule("app", 2_000), BROKER_ITSELF)
        await soon(lambda: bound(one, "app") == 2_000)
        histories = [
            await gateway.server.metadata.writer.history(AuditFilter(entity="client-id=app"))
            for gateway in (one, other)
        ]
        assert [[row.seq for row in rows] for rows in histories] == [[row.seq for row in histories[0]]] * 2


async def test_of_two_that_change_the_same_rule_all_agree_on_one(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, one, other):
        for limit in range(1, 6):
            async with trio.open_nursery() as nursery:
                for gateway, value in ((one, limit * 10), (other, limit * 100)):
                    nursery.start_soon(_try, gateway, rule("app", value))
            await soon(lambda: bound(one, "app") == bound(other, "app"))
            assert bound(one, "app") in (limit * 10, limit * 100)


async def _try(gateway: RunningGateway, command: AlterClientQuotas) -> None:
    (outcome,) = await gateway.server.control.apply(command, BROKER_ITSELF)
    assert outcome.error in (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION)


async def test_a_token_of_one_gateway_is_good_at_the_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (_, one, other):
        issued = await one.server.control.apply(
            IssueAdminToken("ci", Role.EDITOR, "a secret of this test"), BROKER_ITSELF
        )
        assert issued.secret is not None
        await soon(lambda: other.server.views.metadata.identify("a secret of this test") is not None)


async def test_a_gateway_that_was_away_catches_up(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "broker") as broker:
        async with running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=2") as gateway:
            await gateway.server.control.apply(rule("early", 10), BROKER_ITSELF)
            gateway.stop.set()
        async with running_gateway(tmp_path / "one", broker.port, SCOPE, "node.id=1") as one:
            await soon(lambda: bound(one, "early") == 10)
            await one.server.control.apply(rule("late", 20), BROKER_ITSELF)
            async with running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=2") as back:
                assert bound(back, "early") == 10
                await soon(lambda: bound(back, "late") == 20)


async def test_without_the_cluster_the_last_rules_hold_and_changes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.gateway.sharing.metadata_log.COMMIT_S", 0.5)
    async with running_broker(tmp_path / "broker") as broker:
        async with running_gateway(tmp_path / "one", broker.port, SCOPE) as gateway:
            await gateway.server.control.apply(rule("app", 10), BROKER_ITSELF)
            gateway.stop.set()
        port = broker.port
        broker.stop.set()
    async with running_gateway(tmp_path / "one", port, SCOPE, finds_cluster=False) as alone:
        assert bound(alone, "app") == 10
        (outcome,) = await alone.server.control.apply(rule("app", 20), BROKER_ITSELF)
        assert (outcome.error, outcome.message) == (
            ErrorCode.KAFKA_STORAGE_ERROR,
            "The cluster's log of changes is out of reach",
        )
        assert bound(alone, "app") == 10


async def test_a_start_before_a_log_without_signatures_is_refused(tmp_path: Path) -> None:
    plain = ("gateway.cluster.keys=", "gateway.cluster.protection=acl")
    async with running_broker(tmp_path / "broker") as broker:
        async with running_gateway(tmp_path / "one", broker.port, SCOPE, *plain) as old:
            await old.server.control.apply(rule("app", 10), BROKER_ITSELF)
        for name in ("one", "another"):
            with pytest.raises(BaseExceptionGroup) as refused:
                async with running_gateway(tmp_path / name, broker.port, SCOPE):
                    pass
            found = refused.value.subgroup(ConfigError)
            assert found is not None and "weir sign-metadata" in repr(found)
        async with running_gateway(tmp_path / "one", broker.port, SCOPE, *plain) as old:
            assert bound(old, "app") == 10


async def test_forget_is_refused(tmp_path: Path) -> None:
    settings = [
        f"log.dirs={tmp_path}",
        SCOPE,
        f"gateway.cluster.keys={CLUSTER_KEY}",
        "upstream.bootstrap.servers=127.0.0.1:1",
        "console.listener=",
    ]
    configuration = load(None, settings, {})
    object.__setattr__(configuration, "forget", ("quota.window.num",))
    with pytest.raises(ConfigError, match="--forget"):
        GatewayServer(configuration, TrioClock())
