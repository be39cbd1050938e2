"""The console's numbers: shares of time of a broker that idles."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.support.running import running_broker


async def test_who_waits_for_the_first_client_is_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            mock_clock.jump(10)
            figures = broker.house.broker.views.overview().figures
            assert figures.processor_idle == pytest.approx(1.0, abs=1e-6)
            assert figures.handler_idle == pytest.approx(1.0, abs=1e-6)
