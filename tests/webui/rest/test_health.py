"""Metrics for Prometheus, and what probes ask."""

from collections.abc import Iterator

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.polls import Polls, WorkClock
from webui.tables.slices import SLICE_S


async def test_metrics_are_prometheus_text(http: Browserless) -> None:
    answer = await http.get("/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert (await answer.get_data()).decode().endswith("up 1\n")


async def test_health_needs_no_token_and_no_known_host(http: Browserless, broker: FakeBroker) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await http.get(path, token=None, Host="10.1.2.3:8080")
        assert answer.status_code == 200, path


async def test_a_broker_that_does_not_serve_is_alive_and_not_ready(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.is_ready = False
    assert (await http.get("/healthz", token=None)).status_code == 200
    answer = await http.get("/readyz", token=None)
    assert answer.status_code == 503 and answer.content_type == "application/problem+json"


async def test_whoever_reads_all_metrics_lets_others_in_between(
    http: Browserless, broker: FakeBroker, work_clock: WorkClock, polls: Polls
) -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(50):
            work_clock.now += SLICE_S
            yield f'up{{n="{number}"}} 1\n'.encode() if number % 2 else b""

    broker.metrics = pieces
    polls.since()
    answer = await http.get("/metrics")
    assert len((await answer.get_data()).splitlines()) == 25
    assert polls.since() >= 50
