"""The broker's own quota and retry storms on /metrics, with exact values on a mock clock."""

from dataclasses import replace
from pathlib import Path

from trio.testing import MockClock

from broker.config.sections import BrokerQuotaConfig
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.live import alter
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.prometheus import Family, parse
from tests.support.running import RunningBroker, running_broker

QUOTA = BrokerQuotaConfig(quota_enabled=True, produce_bytes=1_000.0)


def page(broker: RunningBroker) -> dict[str, Family]:
    return parse(broker.server.prometheus.page())


async def test_rates_limits_throttle_times_and_counts(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("one")
        await client.ask(create_topic(), 5)
        assert page(broker)["kafka_server_broker_value_rate"].samples == {}
        broker.server.quotas.configure_broker(QUOTA, broker.server.clock.ms())
        answer = await client.ask(produce_request_of(12_000, "one"), PRODUCE_VERSION)
        assert answer.throttle_time_ms == 2_000
        families = page(broker)
        limits = families["kafka_stream_broker_quota_limit"]
        assert limits.value(type="Produce") == 1_000
        assert len(limits.samples) == 1
        rates = families["kafka_server_broker_value_rate"]
        assert (rates.value(type="Produce"), rates.value(type="RequestRate")) == (1_200, 0.1)
        assert (rates.value(type="Fetch"), rates.value(type="SlowFetch")) == (0, 0)
        assert families["kafka_server_broker_throttle_time"].value(type="Produce") == 2_000
        assert families["kafka_server_broker_throttle_time"].value(type="Fetch") == 0
        assert families["kafka_server_broker_queue_size"].value(type="Produce") == 1
        assert families["weir_broker_quota_throttles_total"].value(type="Produce") == 1
        assert families["weir_broker_quota_throttle_ms_total"].value(type="Produce") == 2_000
        broker.server.quotas.configure_broker(replace(QUOTA, quota_enabled=False), broker.server.clock.ms())
        assert page(broker)["kafka_server_broker_value_rate"].samples == {}


async def test_delayed_responses(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "automq.retry.storm.backoff.enabled=true") as broker:
        client = await broker.connect()
        await alter(broker, automq_retry_storm_backoff_max_delay_ms="400")
        missing = MetadataRequest([MetadataRequestTopic(name="missing")], False)
        for _ in range(5):
            await client.ask(missing, 9)
        await client.send(missing, 9)
        await broker.connect()
        await (await broker.connect()).ask(create_topic(), 5)
        families = page(broker)
        assert families["weir_retry_storm_waiting"].value() == 1
        assert families["weir_retry_storm_states"].value() == 1
        assert families["weir_retry_storm_delayed_total"].value() == 1
        assert families["weir_retry_storm_delay_ms_total"].value() == 400
        mock_clock.jump(0.4)
        await client.receive(3, 9)
        assert page(broker)["weir_retry_storm_waiting"].value() == 0
