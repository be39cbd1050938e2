"""`quota.bandwidth.algorithm=token_bucket` over a real connection and a mock clock.
tests/quotas/test_bucket.py tests the algorithm.
"""

from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.quotas.entity import Entity
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import running_broker

SETTINGS = ("quota.bandwidth.algorithm=token_bucket", "quota.bandwidth.burst.seconds=2.5")


@pytest.mark.parametrize(
    ("size", "waits_ms"), [(2_500, (0, 500)), (2_501, (1, 501)), (3_500, (1_000, 1_500))]
)
async def test_a_client_spends_its_burst_and_then_waits_for_what_it_sends(
    tmp_path: Path, mock_clock: MockClock, size: int, waits_ms: tuple[int, int]
) -> None:
    async with running_broker(tmp_path, *SETTINGS) as broker:
        client = await broker.connect("spender")
        assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
        broker.server.quotas.apply(Entity(client_id="spender"), "producer_byte_rate", 1_000)
        answer = await client.ask(produce_request_of(size, "spender"), PRODUCE_VERSION)
        assert answer.throttle_time_ms == waits_ms[0]
        other = await broker.connect("spender")  # the same limit, and it is not throttled
        answer = await other.ask(produce_request_of(500, "spender"), PRODUCE_VERSION)
        assert answer.throttle_time_ms == waits_ms[1]
        row = broker.server.views.quotas.throttled()[0]
        assert (row.throttle_ms, row.bound) == (waits_ms[1], 1_000)
        assert row.observed == pytest.approx(1_000 * (1 + waits_ms[1] / 2_500))
