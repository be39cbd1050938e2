"""A broker with `client.quota.callback.class`: the calls of the callback, and the effect of its results."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ConfigError
from broker.common.slices import run_through
from broker.config.load import load
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.metadata import MetadataRequest
from broker.quotas.entity import Entity
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.server.app import run_broker
from tests.quotas.callbacks import Scripted
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

CLASS = "tests.quotas.callbacks:Scripted"
SETTINGS = (f"client.quota.callback.class={CLASS}", "acme.groups=red", "quota.bandwidth.algorithm=rate")


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *SETTINGS) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


def scripted(broker: RunningBroker) -> Scripted:
    guarded = broker.server.quotas.callback
    assert isinstance(guarded, GuardedCallback)
    callback = guarded._callback
    assert isinstance(callback, Scripted)
    return callback


async def set_rule(broker: RunningBroker, user: str, value: float | None) -> None:
    alteration = QuotaAlteration((("user", user),), (QuotaOp("producer_byte_rate", value),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((alteration,)), BROKER_ITSELF)
    assert outcome.ok


async def produce(client: WireClient, size: int, client_id: str) -> int:
    answer = await client.ask(produce_request_of(size, client_id), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


async def test_it_is_told_the_configuration_the_rules_and_the_topics(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    calls = scripted(broker).calls
    _, configs = calls[0]
    assert configs["acme.groups"] == "red" and configs["client.quota.callback.class"] == CLASS
    assert configs["node.id"] == configs["broker.id"] == str(broker.server.config.broker.node_id)
    assert [dict(call[1].topics) for call in calls if call[0] == "cluster"] == [{}, {"events": (1,)}]
    await set_rule(broker, "red", 1_000)
    assert ("update", QuotaKind.PRODUCE, Entity("red"), 1_000.0) in calls


async def test_rules_are_written_again_at_the_next_start_and_the_end_is_reported(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, *SETTINGS) as first:
        await set_rule(first, "red", 1_000)
        callback = scripted(first)
    assert callback.calls[-1] == ("close",)
    async with running_broker(tmp_path, *SETTINGS) as second:
        assert scripted(second).calls[1] == ("update", QuotaKind.PRODUCE, Entity("red"), 1_000.0)


async def test_a_client_is_held_by_the_callbacks_limit_and_the_rows_say_so(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await set_rule(broker, "ANONYMOUS", 1_000)  # to Scripted, the limit of the group ANONYMOUS
    one, other = await broker.connect("one"), await broker.connect("other")
    assert await produce(one, 10_000, "one") == 0
    assert await produce(other, 1_000, "other") == 1_000
    (row,) = broker.server.views.quotas.throttled()
    assert (row.client_id, row.entity, row.tags) == ("other", (), (("group", "ANONYMOUS"),))
    assert (row.observed, row.bound, row.throttle_ms) == (1_100, 1_000, 1_000)
    limit, _ = run_through(broker.server.views.quotas.resolve(None, "one"))[0]
    assert (limit.key, limit.bound, limit.observed, limit.matched) == (
        "producer_byte_rate",
        1_000,
        1_100,
        None,
    )
    assert limit.decided is not None and limit.decided.tags == (("group", "ANONYMOUS"),)
    assert [probe.value for probe in limit.probes if probe.value] == [1_000]
    assert not any(probe.matched for probe in limit.probes)
    began = trio.current_time()
    mock_clock.autojump_threshold = 0.01
    await other.ask(MetadataRequest([]), 9)
    assert trio.current_time() - began == pytest.approx(1, abs=0.002)


async def test_new_topics_can_release_throttled_clients(broker: RunningBroker, mock_clock: MockClock) -> None:
    callback = scripted(broker)
    callback.limits["ANONYMOUS"] = 1_000
    client, maker = await broker.connect("one"), await broker.connect("maker")
    assert await produce(client, 21_000, "one") == 11_000
    callback.limits["ANONYMOUS"] = 2_500
    callback.cluster_changes = True
    began = trio.current_time()
    assert (await maker.ask(create_topic("more"), 5)).topics[0].error_code == 0
    await client.ask(MetadataRequest([]), 9)
    assert trio.current_time() == began


async def test_a_callback_that_breaks_leaves_clients_served(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    callback = scripted(broker)

    def broken() -> None:
        raise RuntimeError("broken")

    callback.broken.update(tags=broken, reset=broken, limit=broken)
    assert await produce(await broker.connect("one"), 100_000, "one") == 0
    page = broker.server.prometheus.page()
    assert 'kafka_server_client_quota_callback_failures_total{method="quota_metric_tags"}' in page


async def test_a_class_that_is_not_there_stops_the_start_before_anything_is_made(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    directory = tmp_path / "data"
    settings = [f"log.dirs={directory}", "client.quota.callback.class=nowhere:Class"]
    reason = r"class='nowhere:Class' is not allowed: cannot import module nowhere"
    with pytest.raises(ConfigError, match=reason):
        await run_broker(load(None, settings, {}), trio.Event())
    assert not directory.exists()


@pytest.mark.parametrize(
    ("callback", "fate"), [("", "it is ignored"), (CLASS, "only the quota callback receives it")]
)
def test_an_unknown_key_is_warned_of_with_its_fate(callback: str, fate: str) -> None:
    configuration = load(None, [f"client.quota.callback.class={callback}", "acme.groups=red"], {})
    assert f"--override: unknown key acme.groups; {fate}" in configuration.warnings
