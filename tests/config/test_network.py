"""The keys of AutoMQ's mode: defaults, ranges, and the rule between the watermarks."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import build_config
from broker.config.sections import AutomqConfig


def test_kafkas_mode_is_the_default_and_the_limits_are_automqs() -> None:
    assert build_config({}).automq == AutomqConfig("kafka", 104_857_600, 64, 8)


@pytest.mark.parametrize(("mode", "allowed"), [("kafka", True), ("automq", True), ("AutoMQ", False)])
def test_there_are_two_modes(mode: str, allowed: bool) -> None:
    values = {"socket.server.mode": mode}
    if allowed:
        assert build_config(values).automq.server_mode == mode
    else:
        with pytest.raises(ConfigError):
            build_config(values)


@pytest.mark.parametrize(("low", "allowed"), [("0", False), ("1", True), ("64", True), ("65", False)])
def test_the_low_watermark_is_not_above_the_high_one(low: str, allowed: bool) -> None:
    values = {"pipeline.low.watermark": low}
    if allowed:
        assert build_config(values).automq.pipeline_low == int(low)
    else:
        with pytest.raises(ConfigError, match=r"pipeline\.low\.watermark"):
            build_config(values)
