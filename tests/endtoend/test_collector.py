"""An OpenTelemetry Collector with the configuration of Compose takes what a real client pushes to the broker.

.ci/run builds the Collector where Go is, from the parts that collector/builder.yaml names.
"""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import yaml
from confluent_kafka import Producer
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData

from broker.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from tests.conventions.sources import ROOT
from tests.support.broker_process import BrokerProcess, within
from tests.support.prometheus import parse
from tests.support.running_gateway import free_ports
from tests.support.telemetry import subscribe
from tests.support.wire import connect

PROGRAM: Final = shutil.which("otelcol") or ""
CONFIGURATION: Final = ROOT / "deploy" / "otel" / "collector.yaml"
MANIFEST: Final = Path(__file__).parent / "collector" / "builder.yaml"
CREATED: Final = "org_apache_kafka_producer_connection_creation_total"

pytestmark = pytest.mark.endtoend

needs_collector = pytest.mark.skipif(not PROGRAM, reason="there is no otelcol")


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _sections() -> dict[str, list[str]]:
    """Return the types of the parts that the configuration has, by section."""
    return {
        section: [name.partition("/")[0] for name in parts]
        for section, parts in _read(CONFIGURATION).items()
        if section != "service"
    }


def test_the_collector_that_is_built_has_the_parts_and_the_version_of_compose() -> None:
    tag, _, _ = _read(ROOT / "compose.yaml")["services"]["collector"]["image"].partition("@")
    _, _, version = tag.rpartition(":")
    built = {
        section: [part["gomod"] for part in parts]
        for section, parts in _read(MANIFEST).items()
        if section != "dist"
    }
    assert built.keys() == _sections().keys()
    for section, types in _sections().items():
        ends = [f"/{kind}{section.removesuffix('s')} v{version}" for kind in types]
        assert all(module.endswith(end) for module, end in zip(built[section], ends, strict=True)), section


@needs_collector
def test_the_collector_accepts_the_configuration() -> None:
    done = subprocess.run(
        [PROGRAM, "validate", f"--config={CONFIGURATION}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@needs_collector
def test_the_collector_refuses_a_part_that_it_has_not(tmp_path: Path) -> None:
    wrong = tmp_path / "collector.yaml"
    text = CONFIGURATION.read_text(encoding="utf-8")
    wrong.write_text(text.replace("[prometheus]", "[elsewhere]"), encoding="utf-8")
    done = subprocess.run(
        [PROGRAM, "validate", f"--config={wrong}"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "elsewhere" in done.stderr


class Collector:
    """The configuration of Compose on free ports of the loopback address."""

    def __init__(self, directory: Path) -> None:
        document = _read(CONFIGURATION)
        first = free_ports(2)
        self.receives, self.shows = f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"
        document["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = self.receives
        document["exporters"]["prometheus"]["endpoint"] = self.shows
        # Its metrics of itself have a fixed port.
        document["service"]["telemetry"] = {"metrics": {"level": "none"}}
        self._config = directory / "collector.yaml"
        self._config.write_text(yaml.safe_dump(document), encoding="utf-8")
        self._log = directory / "collector.log"

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("ab") as log:
            command = [PROGRAM, f"--config={self._config}"]
            with subprocess.Popen(command, stdout=log, stderr=log) as process:
                try:
                    within(30, self._answers, "the Collector answers")
                    yield
                finally:
                    process.terminate()

    def _answers(self) -> bool:
        try:
            self.page()
        except OSError:
            return False
        return True

    def page(self) -> str:
        with urllib.request.urlopen(f"http://{self.shows}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")

    def lines_of(self, client_id: str) -> list[str]:
        """Return the samples that name the client."""
        return [line for line in self.page().splitlines() if f'client_id="{client_id}"' in line]


@needs_collector
def test_the_collector_shows_what_a_client_pushed_and_what_waited_while_it_was_away(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    settings = f"telemetry.otlp.endpoint=http://{collector.receives}"
    with BrokerProcess(tmp_path / "data", settings) as broker:
        subscribe(broker, metrics="*", interval_ms="300")
        with collector.running():
            early = _producer(broker, "early")
            (created,) = within(30, lambda: _created(collector, "early"), "a client's counter")
            assert 'principal="ANONYMOUS"' in created
            assert 'client_software_name="confluent-kafka-python"' in created
        late = _producer(broker, "late")
        within(30, lambda: _waiting(broker), "a push that waits")
        with collector.running():
            within(60, lambda: collector.lines_of("late"), "what was pushed meanwhile")
        del early, late


@needs_collector
async def test_what_a_client_counts_between_its_pushes_adds_up_in_the_collector(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    settings = f"telemetry.otlp.endpoint=http://{collector.receives}"
    with BrokerProcess(tmp_path / "data", settings) as broker, collector.running():
        subscribe(broker, metrics="*", interval_ms="300")
        client = await connect(int(broker.plain.rpartition(":")[2]), "counting")
        async with client.stream:
            given = await client.ask(GetTelemetrySubscriptionsRequest(bytes(16)), 0)
            who = given.client_instance_id, given.subscription_id
            began = time.time_ns()
            for added in (3, 4):
                ended = time.time_ns()
                push = PushTelemetryRequest(*who, False, 0, _counted(added, began, ended))
                while (await client.ask(push, 0)).error_code:  # noqa: ASYNC110 - sooner than the interval
                    await trio.sleep(0.1)
                began = ended
            await trio.to_thread.run_sync(
                within, 60, lambda: _values(collector, "counting") == [7.0], "3 + 4"
            )


def _counted(added: int, began_ns: int, ended_ns: int) -> bytes:
    """Return the OTLP of a counter as Kafka's clients push it: what was added since the last push."""
    metrics = MetricsData()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = "org.apache.kafka.producer.connection.creation.total"
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    metric.sum.data_points.add(start_time_unix_nano=began_ns, time_unix_nano=ended_ns, as_double=added)
    return bytes(metrics.SerializeToString())


def _values(collector: Collector, client_id: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in _created(collector, client_id)]


def _producer(broker: BrokerProcess, client_id: str) -> Producer:
    """Return a producer that is connected and has written a record."""
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": client_id})
    producer.produce("pushed", b"x")
    assert producer.flush(20) == 0
    return producer


def _created(collector: Collector, client_id: str) -> list[str]:
    return [line for line in collector.lines_of(client_id) if line.startswith(CREATED)]


def _waiting(broker: BrokerProcess) -> bool:
    """Whether the broker has tried in vain."""
    return parse(broker.ask("GET", "/metrics"))["weir_client_telemetry_otlp_retries_total"].value() > 0
