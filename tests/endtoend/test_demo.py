"""The demo: its tenants come, are limited, fill the pages, and leave nothing behind."""

import os
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
