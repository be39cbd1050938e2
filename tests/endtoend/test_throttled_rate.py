"""How exactly producers are limited: a minute at 1 MB/s, within 3 %, where Kafka's quota_test.py allows 5."""

import logging
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker_process import BrokerProcess, within
from tests.support.quota_interfaces import set_by_rest
from tests.support.real_producers import Aiokafka, KafkaPython, Librdkafka, RealProducer

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]

LIMIT: Final = 1_000_000
SECONDS: Final = 60


@pytest.mark.timed
@pytest.mark.parametrize("kind", [Librdkafka, KafkaPython, Aiokafka])
def test_a_producer_averages_its_limit_over_a_minute_from_its_first_record_on(
    tmp_path: Path, kind: type[RealProducer]
) -> None:
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of every throttle
    with BrokerProcess(tmp_path) as broker:
        set_by_rest(broker, {"client-id": "held"}, LIMIT)
        with kind(broker.plain, "held") as producer:
            within(10, lambda: producer.delivered, "the first record")
            share = (producer.delivered + SECONDS * producer.rate(SECONDS)) / SECONDS / LIMIT
            set_by_rest(broker, {"client-id": "held"}, None)
        print(f"{kind.__name__}: {share:.4f} of its limit over {SECONDS} s")
        assert share == pytest.approx(1, abs=0.03)
