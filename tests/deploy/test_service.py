"""The unit for systemd starts the command that the wheel installs, and systemd finds nothing to say."""

import configparser
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from broker.__main__ import main
from broker.config.sections import GatewayConfig
from tests.conventions.sources import ROOT

UNIT: Final = ROOT / "deploy" / "systemd" / "weir.service"


@pytest.fixture
def service() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser["Service"]


def test_it_runs_a_command_that_there_is(service: configparser.SectionProxy) -> None:
    program, command, file = service["ExecStart"].split()
    assert (Path(program).name, file) == ("weir", "/etc/weir/server.properties")
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_a_stop_may_take_as_long_as_the_drain_of_a_gateway(service: configparser.SectionProxy) -> None:
    of_a_broker_s = 120
    assert int(service["TimeoutStopSec"]) >= of_a_broker_s + GatewayConfig().drain_timeout_ms / 1000


def test_its_data_are_where_it_may_write(service: configparser.SectionProxy) -> None:
    assert f"/var/lib/{service['StateDirectory']}" == service["WorkingDirectory"]
    assert "echo 'log.dirs=/var/lib/weir'" in UNIT.read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_it_as_it_is(tmp_path: Path) -> None:
    """With a program that exists: systemd looks for it."""
    unit = tmp_path / "weir.service"
    text = UNIT.read_text(encoding="utf-8").replace("/opt/weir/bin/weir", "/bin/true")
    unit.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    assert [line for line in done.stderr.splitlines() if "weir" in line] == []
