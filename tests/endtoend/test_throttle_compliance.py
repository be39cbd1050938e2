"""Which real clients wait as they are told: kafka-python does, librdkafka and aiokafka do not."""

import logging
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, within
from tests.support.quota_interfaces import set_by_rest
from tests.support.real_producers import Aiokafka, KafkaPython, Librdkafka, RealProducer

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]


@pytest.mark.parametrize(("kind", "obeys"), [(KafkaPython, True), (Aiokafka, False), (Librdkafka, False)])
def test_the_console_lists_waiting_connections(tmp_path: Path, kind: type[RealProducer], obeys: bool) -> None:
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of every throttle
    with BrokerProcess(tmp_path) as broker, kind(broker.plain, "told") as producer:
        within(20, lambda: producer.delivered, "the first record")
        set_by_rest(broker, {"client-id": "told"}, 500_000)

        def verdict() -> bool:
            row = broker.throttled("told")
            return row is not None and row["obeys"] is obeys

        within(60, verdict, f"obeys={obeys}", every=0.2)
        set_by_rest(broker, {"client-id": "told"}, None)
