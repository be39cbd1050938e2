"""The console's numbers: shares of time and rates, of a broker that idles and of one that works."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.figures import RATE_WINDOW_NS, Window
from tests.support.running import running_broker


def test_the_first_look_closes_a_window_that_began_at_zero() -> None:
    assert Window(5).look(RATE_WINDOW_NS // 2 + 5, (100,)) == (200.0,)


@pytest.mark.parametrize(("after", "rate"), [(-1, 0.0), (0, 30.0), (RATE_WINDOW_NS, 15.0)])
def test_a_later_window_lasts_for_a_second_or_until_somebody_looks(after: int, rate: float) -> None:
    window = Window(0)
    window.look(1, (0,))
    (shown,) = window.look(1 + RATE_WINDOW_NS + after, (30,))
    assert shown == pytest.approx(rate)


async def test_who_waits_for_the_first_client_is_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            mock_clock.jump(10)
            figures = broker.house.broker.views.overview().figures
            assert figures.processor_idle == pytest.approx(1.0, abs=1e-6)
            assert figures.handler_idle == pytest.approx(1.0, abs=1e-6)
