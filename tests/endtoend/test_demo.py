"""The demo: its tenants come, are limited, fill the pages, and leave nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.broker_process import TOKEN, BrokerProcess, within

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]


def test_the_demo_fills_the_pages_of_a_running_broker_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        addresses = [f"--bootstrap={broker.plain}", f"--console={broker.console}"]
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo", "--running", *addresses, "--free=6", "--seconds=30"],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
        )

        for client_id in ("greedy", "patient"):
            within(28, partial(broker.throttled, client_id), f"{client_id} is throttled", every=0.1)
        assert broker.ask("GET", "/api/v1/client-instances")["total"] > 0
        assert {"polite-readers", "reports-daily"} <= {
            row["group_id"] for row in broker.ask("GET", "/api/v1/groups")["items"]
        }
        output, _ = demo.communicate(timeout=60)
        assert demo.returncode == 0 and "patient" in output
        assert broker.ask("GET", "/api/v1/client-quotas")["items"] == []
        assert broker.ask("GET", "/api/v1/ip-quotas?filter=limited")["items"] == []
        assert broker.ask("GET", "/api/v1/client-metrics")["items"] == []
        assert "weir-demo-orders" not in str(broker.ask("GET", "/api/v1/topics"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_broker_of_the_demo_and_removes_its_folder(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Without addresses, as `make demo`: beside whatever has the usual ports. Signalled twice, as by a
    terminal that closes.
    """
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 9092))
            taken.listen()
        except OSError:
            pass  # a broker of this machine has it
        with subprocess.Popen(
            [sys.executable, "-m", "demo", "--free=60"],
            env=os.environ | {"TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        ) as demo:
            assert demo.stdout is not None
            started = next(line for line in demo.stdout if line.startswith("Kafka:"))
            found = re.fullmatch(r"Kafka:   127\.0\.0\.1:(\d+)\n", started)
            assert found is not None and found[1] != "9092"
            assert list(tmp_path.glob("weir-demo-*")) != []
            demo.send_signal(number)
            demo.send_signal(number)
            demo.communicate(timeout=60)
        assert demo.returncode == 0
        assert list(tmp_path.iterdir()) == []
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", int(found[1]))) != 0, "the broker still runs"
