"""What the load program is asked for."""

from typing import Any

import pytest

from benchmarks import loads
from benchmarks.loads import AT_HALF_WARM_UP_S, LOADS, PEAK_S, measure


def test_half_load_is_half_of_the_rate_that_was_just_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], *, limit_s: float) -> dict[str, Any]:
        asked.append(command)
        return {"requests_per_second": 9_001.0 / len(asked), "answered": 100 * len(asked), "p99_us": 7.0}

    monkeypatch.setattr(loads, "_run", run)
    result = measure(LOADS["fetch_8_half"], 1, "topic", seconds=6, warm_up_s=4)
    full, half = (set(command) for command in asked)
    assert full - half == {f"--seconds={PEAK_S}", "--warm-up=4"}
    assert half - full == {"--seconds=6", f"--warm-up={AT_HALF_WARM_UP_S}", "--rate=4500.5"}
    assert result == {"requests_per_second": 4_500.5, "answered": 300, "p99_us": 7.0}
