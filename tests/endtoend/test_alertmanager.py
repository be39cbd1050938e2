"""A real Alertmanager takes the broker's alerts, shows them, and hears that they are over."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.process import free_port
from tests.support.broker_process import BrokerProcess, within

pytestmark = pytest.mark.endtoend

PROGRAM: Final = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
CONFIG: Final = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


@contextmanager
def alertmanager(directory: Path) -> Iterator[str]:
    """Yield its host and port."""
    if PROGRAM is None:
        pytest.skip("there is no alertmanager")
    config = directory / "alertmanager.yml"
    config.write_text(CONFIG, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        PROGRAM,
        f"--config.file={config}",
        f"--storage.path={directory / 'storage'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            within(10, lambda: _is_ready(address), "Alertmanager is ready")
            yield address
        finally:
            process.terminate()


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def alerts(address: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://{address}/api/v2/alerts", timeout=5) as answer:
        return list(json.loads(answer.read()))


def test_alertmanager_shows_an_alert_until_it_is_over(tmp_path: Path) -> None:
    rule = "/api/v1/alert-rules/disks%20fill%20up"
    with alertmanager(tmp_path) as address:
        settings = (f"alerts.destination.hosts={address}", "alerts.evaluation.interval.ms=1000")
        with BrokerProcess(tmp_path / "data", *settings) as broker:
            destination = {"kind": "alertmanager", "url": f"http://{address}"}
            broker.ask("PUT", "/api/v1/alert-destinations/on-call", destination)
            wanted = {
                "condition": "disk",
                "threshold": 0,
                "for_ms": 0,
                "clear": 0,
                "resolve_after_ms": 0,
                "severity": "critical",
                "destinations": ["on-call"],
            }
            broker.ask("PUT", rule, wanted)
            (alert,) = within(15, lambda: alerts(address), "Alertmanager has the alert")
            assert {
                "alertname": "disks fill up",
                "severity": "critical",
                "condition": "disk",
                "node": "1",
                "directory": str(tmp_path / "data"),
            }.items() <= alert["labels"].items()
            assert alert["annotations"]["summary"].endswith("more than 0")
            assert alert["status"]["state"] == "active"
            broker.ask("DELETE", rule)
            within(15, lambda: not alerts(address), "the alert is over")
