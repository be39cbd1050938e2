"""Rules that limit no connected client, over real connections."""

from pathlib import Path

from broker.common.principal import ANONYMOUS
from broker.common.slices import run_through
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.quotas import OverriddenBy
from broker.metadata.actor import BROKER_ITSELF
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import quota_rows

KEY = "producer_byte_rate"
APP: EntityPairs = (("client-id", "app"),)
ANYBODY: EntityPairs = (("user", ANONYMOUS),)


async def limit(broker: RunningBroker, entity: EntityPairs, value: float | None) -> None:
    entry = QuotaAlteration(entity, (QuotaOp(KEY, value),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((entry,)), BROKER_ITSELF)
    assert outcome.ok


def overriding(broker: RunningBroker, entity: EntityPairs) -> OverriddenBy | None:
    views = broker.server.views
    row = run_through(views.quotas.quota(entity))
    assert row is not None and row in quota_rows(views)
    return row.limits[0].overridden_by


async def test_the_rule_of_a_clients_user_overrides_the_rule_of_its_client_id(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await limit(broker, APP, 1_000_000.0)
        await limit(broker, ANYBODY, 2_000_000.0)
        assert overriding(broker, APP) is None
        clients = [await broker.connect(name) for name in ("app", "app", "other")]
        for number, client in enumerate(clients):
            await client.ask(create_topic(f"topic-{number}"), 5)
        assert overriding(broker, APP) == OverriddenBy((ANYBODY,), clients=1)
        assert overriding(broker, ANYBODY) is None
        await limit(broker, ANYBODY, None)
        assert overriding(broker, APP) is None
