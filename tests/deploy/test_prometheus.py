"""Prometheus takes the rules and the configuration, where its promtool is (Debian: `prometheus`)."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.sources import ROOT

PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
PROMTOOL: Final = shutil.which("promtool") or ""

pytestmark = pytest.mark.skipif(not PROMTOOL, reason="there is no promtool")


def test_the_alerts_are_rules() -> None:
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(PROMETHEUS / "alerts.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stderr


def test_the_configuration_is_one(tmp_path: Path) -> None:
    """With the files that Compose mounts."""
    (tmp_path / "token").write_text("a-token", encoding="ascii")
    shutil.copy(PROMETHEUS / "alerts.yml", tmp_path)
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    config = tmp_path / "prometheus.yml"
    config.write_text(
        text.replace("/run/secrets/weir-token", str(tmp_path / "token")).replace(
            "/etc/weir-targets/weir.yml", str(PROMETHEUS / "targets" / "broker.yml")
        ),
        encoding="utf-8",
    )
    done = subprocess.run([PROMTOOL, "check", "config", str(config)], capture_output=True, text=True)
    assert done.returncode == 0 and "is valid" in done.stdout, done.stderr


def test_alerts_begin_beyond_their_limits_and_after_their_waits(tmp_path: Path) -> None:
    shutil.copy(PROMETHEUS / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alerts.test.yml"), tmp_path)
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "alerts.test.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
