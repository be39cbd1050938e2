"""The clock that the soak moves is the one that a broker reads."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.soak import wall_clock

READS = """\
import runpy, sys, time
import broker.__main__
from broker.network.clock import _real_wall_ms
def main():
    for line in sys.stdin:
        print(_real_wall_ms(), round(time.time() * 1000), flush=True)
broker.__main__.main = main
sys.argv = ["wall_clock", *sys.argv[1:]]
runpy.run_module("benchmarks.soak.wall_clock", run_name="__main__")
"""


@pytest.mark.parametrize("seconds", [-3_000.0, 0.0, 86_400.0])
def test_a_running_process_sees_each_step(tmp_path: Path, seconds: float) -> None:
    file = tmp_path / "clock"
    wall_clock.make(file)
    command = [sys.executable, "-c", READS, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for step in (0.0, seconds, 0.0):
            wall_clock.set_difference(file, step)
            before = time.time()
            process.stdin.write("now\n")
            process.stdin.flush()
            read = [int(word) / 1_000 - step for word in process.stdout.readline().split()]
            assert all(before - 0.01 <= each <= time.time() + 0.01 for each in read), (step, read)
        process.stdin.close()
