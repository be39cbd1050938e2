"""The cost of quotas for unlimited clients, and their accuracy for a limited one: `python -m
benchmarks.quota`.

Measures only Weir. The first value is the time of the test that each produce request makes without a quota,
as a share of the broker's processor time for the request; the second is the throughput of a producer that
sends as fast as it gets responses, with a quota of 1 MB/s.
"""

import contextlib
import json
import os
import secrets
import tempfile
import time
import timeit
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from benchmarks.install import install_load_program
from benchmarks.loads import LOADS, PAGES, Load, measure, prepared
from benchmarks.peers import PEERS
from benchmarks.process import Broker, running
from broker.quotas.client_quotas import ClientQuotas

HELD_TO: Final = 1_000_000
WINDOW_S: Final = (
    # quota.window.num x quota.window.size.seconds: earlier traffic is then out of the window
    11.0
)
LOOPS: Final = 5_000_000
HELD: Final = Load("held", "", "produce", "megabytes_per_second", 1, PAGES)


def _await_console(broker: Broker) -> None:
    """Wait for the console, which starts after the broker so that it does not delay clients."""
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(_url(broker, "/healthz"), timeout=5):
            return
        time.sleep(0.1)
    raise click.ClickException("the console does not respond")


def _url(broker: Broker, path: str) -> str:
    return f"http://127.0.0.1:{broker.port + 1}{path}"


def _set_quota(broker: Broker, token: str) -> None:
    entry = {"entity": {"client-id": "weir-load"}, "ops": [{"key": "producer_byte_rate", "value": HELD_TO}]}
    request = urllib.request.Request(
        _url(broker, "/api/v1/client-quotas"),
        data=json.dumps({"entries": [entry]}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="PATCH",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200, answer.status


def idle_test_ns() -> float:
    """Return the nanoseconds of `if broker.quotas.produce.active` without a quota, minus the loop."""
    names = {"broker": SimpleNamespace(quotas=ClientQuotas())}
    test = "if broker.quotas.produce.active: raise AssertionError"
    timed = min(timeit.repeat(test, globals=names, number=LOOPS, repeat=5))
    empty = min(timeit.repeat("pass", globals=names, number=LOOPS, repeat=5))
    return (timed - empty) / LOOPS * 1e9


def _cost(broker: Broker) -> None:
    load = LOADS["produce_100b"]
    with prepared(load, broker.port) as topic:
        before = broker.cpu_s()
        result = measure(load, broker.port, topic, seconds=5, warm_up_s=0)
        request_us = (broker.cpu_s() - before) / result["requests"] * 1e6
    test_ns = idle_test_ns()
    share = test_ns / request_us / 10
    click.echo(
        f"no quota set: the test takes {test_ns:.0f} ns of {request_us:.1f} us per request, {share:.2f} %"
    )


def _hold(broker: Broker, token: str, seconds: float) -> None:
    _await_console(broker)
    _set_quota(broker, token)
    for warm_up_s, what in (
        (0.0, "from the first request on"),
        (WINDOW_S, "after the first window"),
    ):
        with prepared(HELD, broker.port) as topic:
            result: dict[str, Any] = measure(HELD, broker.port, topic, seconds=seconds, warm_up_s=warm_up_s)
        rate = result["sent_bytes"] / result["seconds"]
        off = (rate / HELD_TO - 1) * 100
        click.echo(
            f"limit {HELD_TO / 1e6:g} MB/s, {what}: {rate / 1e6:.3f} MB/s over {seconds:g} s, {off:+.1f} %"
        )


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="Measured time of a limited producer.")
def main(seconds: float) -> None:
    """Measure the cost of a quota, and its accuracy."""
    install_load_program()
    token = os.environ["WEIR_ADMIN_TOKEN"] = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="weir-quota-") as scratch:
        with running(PEERS["weir"], Path(scratch)) as broker:
            _cost(broker)
        with running(PEERS["weir"], Path(scratch)) as broker:
            _hold(broker, token, seconds)


if __name__ == "__main__":
    main()
