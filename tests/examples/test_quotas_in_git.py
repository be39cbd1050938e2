"""examples/quotas-in-git: the steps of its workflow plan a change, apply it, and stop at a mistake."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conventions.sources import ROOT
from weir.testing import Broker

pytestmark = pytest.mark.endtoend

FOLDER: Final = ROOT / "examples" / "quotas-in-git"
WORKFLOW: Final = FOLDER / ".github" / "workflows" / "quotas.yml"
JOB: Final[dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["quotas"]
STEPS: Final = {step["name"]: step for step in JOB["steps"] if "name" in step}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "checkout"))


@pytest.fixture(scope="module")
def token(broker: Broker) -> str:
    """Of the role that the workflow names."""
    assert "a token of the role `editor`" in WORKFLOW.read_text(encoding="utf-8")
    request = urllib.request.Request(
        f"{broker.console_url}api/v1/tokens",
        json.dumps({"name": "ci", "role": "editor"}).encode(),
        {"Authorization": f"Bearer {broker.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        made: str = json.load(response)["secret"]
    return made


def run(broker: Broker, token: str, checkout: Path, step: str) -> "subprocess.CompletedProcess[str]":
    """Run a step as the runner does: in bash, in the checkout, with the variables of the job."""
    given = {"WEIR_CONSOLE": broker.console_url, "WEIR_TOKEN": token, "WEIR_PACKAGE": "weir-broker"}
    assert JOB["env"].keys() == given.keys()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]],
        cwd=checkout,
        env=os.environ | given | {"PATH": path},
        capture_output=True,
        text=True,
    )


def test_github_knows_every_key() -> None:
    schema = "vendor.github-workflows"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_only_a_push_applies() -> None:
    assert [name for name, step in STEPS.items() if "if" in step] == ["apply"]
    assert STEPS["apply"]["if"] == "github.event_name == 'push'"


def test_a_change_is_planned_applied_and_then_nothing_is_left_to_change(
    broker: Broker, token: str, checkout: Path
) -> None:
    broker.set_quota(user="forgotten", producer_byte_rate=1)
    planned = run(broker, token, checkout, "plan")
    assert planned.returncode == 0
    assert set(planned.stdout.splitlines()) == {
        "default client-id  consumer_byte_rate  + 2 MB/s",
        "default client-id  producer_byte_rate  + 1 MB/s",
        "client-id reports  consumer_byte_rate  + 10 MB/s",
        "user forgotten  producer_byte_rate  - 1 B/s",
    }
    assert run(broker, token, checkout, "apply").stdout == planned.stdout
    again = run(broker, token, checkout, "plan")
    assert (again.returncode, again.stdout) == (0, "Nothing to change.\n")


@pytest.mark.parametrize("step", ["plan", "apply"])
def test_a_mistake_in_the_file_fails_the_step(broker: Broker, token: str, checkout: Path, step: str) -> None:
    file = checkout / "quotas.yaml"
    file.write_text(file.read_text().replace("consumer_byte_rate", "consumer_rate"))
    done = run(broker, token, checkout, step)
    assert done.returncode == 1
    assert "consumer_rate" in done.stderr and "no quota was changed" in done.stderr
