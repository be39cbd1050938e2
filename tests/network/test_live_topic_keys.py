"""Topic keys that spread rolls, and keys without effect, changed while the broker runs."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.log.partition import PartitionLog
from tests.support.live import alter, takes_effect
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker

HOUR = 3_600_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        client = await running.connect()
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


@takes_effect("log.roll.jitter.ms")
async def test_how_far_rolls_are_spread(broker: RunningBroker) -> None:
    await alter(broker, log_roll_jitter_ms="5000")
    log = broker.server.partitions.log("events", 0)
    assert isinstance(log, PartitionLog) and log.settings.segment_jitter_ms == 5_000


@takes_effect(
    "group.consumer.assignor.offload.enable",
    "group.share.assignor.offload.enable",
    "group.streams.assignor.offload.enable",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "log.preallocate",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
async def test_a_key_without_effect_is_accepted_with_a_warning(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    values = {
        "group.consumer.assignor.offload.enable": "false",
        "group.share.assignor.offload.enable": "false",
        "group.streams.assignor.offload.enable": "false",
        "log.local.retention.bytes": "1",
        "log.local.retention.ms": "1",
        "log.preallocate": "true",
        "log.remote.copy.lag.bytes": "1",
        "log.remote.copy.lag.ms": "1",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
    }
    await alter(broker, **{key.replace(".", "_"): value for key, value in values.items()})
    for key in values:
        assert f"{key} has no effect: " in caplog.text
