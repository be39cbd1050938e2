"""The demo with gateways: three Kafka brokers, two gateways and the tenants come, are limited, and leave."""

import re
import subprocess
import sys

from tests.support import kafka_tools
from tests.support.gateway_process import free_range

pytestmark = kafka_tools.pytestmark


def test_the_demo_of_two_gateways_plays_and_ends() -> None:
    first = free_range(12)
    second = first + 100
    addresses = [f"--bootstrap=127.0.0.1:{first}", f"--console=127.0.0.1:{first + 11}"]
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--gateways", *addresses, "--free=4", "--seconds=20"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"127.0.0.1:{second}" in done.stdout
    assert "may now send 1 MB/s" in done.stdout
    rates = [float(rate) for rate in re.findall(r"^greedy +([0-9.]+) MB/s, told", done.stdout, re.MULTILINE)]
    assert len(rates) > 5 and 0 <= rates[-1] < 2 < max(rates), done.stdout
