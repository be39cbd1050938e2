"""The workflows of GitHub Actions: actions by digest, few permissions, what actionlint says, and the versions
that pyproject.toml has.

No workflow runs here. Its steps are commands of this project, which other tests run, or actions of others.
"""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from broker.common.version import VERSION
from tests.conventions.sources import ROOT

FILES: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ALLOWED: Final = {
    "release.yml publish": {"id-token": "write"},
    "release.yml tag": {"id-token": "write", "attestations": "write"},
}
"""What may be written: tokens of the run's own identity, and attestations."""

ALL: Final = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def document(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def release() -> dict[str, Any]:
    jobs: dict[str, Any] = document(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    return jobs


def commands() -> Iterator[str]:
    for job in release().values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


def test_there_are_workflows() -> None:
    assert [file.name for file in FILES] == ["ci.yml", "release.yml"]


@ALL
def test_every_action_is_pinned_by_digest_and_says_its_version(file: Path) -> None:
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    pinned = re.compile(r"(?:- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in lines if not pinned.fullmatch(line)] == []


def test_an_action_has_one_digest() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    pins = set(re.findall(r"uses: (\S+)@(\S+) # (\S+)", text))
    assert len({name for name, _, _ in pins}) == len(pins)


@ALL
def test_a_job_may_write_only_what_it_must(file: Path) -> None:
    workflow = document(file)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for name, job in workflow["jobs"].items():
        given = job.get("permissions", workflow["permissions"])
        assert given == ALLOWED.get(f"{file.name} {name}", {"contents": "read"}), name


@ALL
def test_a_checkout_keeps_no_login(file: Path) -> None:
    steps = [step for job in document(file)["jobs"].values() for step in job["steps"]]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


@ALL
@pytest.mark.skipif(shutil.which("actionlint") is None, reason="there is no actionlint; .ci/run builds one")
def test_actionlint_finds_nothing(file: Path) -> None:
    done = subprocess.run(["actionlint", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="there is no actionlint; .ci/run builds one")
def test_actionlint_finds_a_fault(tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    file = tmp_path / "release.yml"
    file.write_text(text.replace("needs: [archives, wheels]", "needs: [archives, wheel]"), encoding="utf-8")
    done = subprocess.run(["actionlint", str(file)], capture_output=True, text=True)
    assert done.returncode == 1 and "wheel" in done.stdout


def test_wheels_are_made_and_tried_for_each_python_that_weir_names() -> None:
    named = [each.rpartition(" ")[2] for each in PROJECT["project"]["classifiers"] if ":: 3." in each]
    built = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{each.replace('.', '')}-*" for each in named]
    assert release()["trial"]["strategy"]["matrix"]["python"] == named


def test_a_trial_uses_the_client_of_the_tests() -> None:
    (client,) = [
        each for each in PROJECT["project"]["optional-dependencies"]["dev"] if "kafka-python" in each
    ]
    assert PROJECT["tool"]["cibuildwheel"]["test-requires"] == [client]
    assert f"pip install {client}\n" in "".join(commands())


def test_the_images_name_this_version_by_themselves() -> None:
    assert f"\nARG VERSION={VERSION}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_nothing_is_published_without_a_tag() -> None:
    jobs = release()
    assert jobs["images"]["if"] == "github.ref_type == 'tag'"
    assert {name for name, job in jobs.items() if "environment" in job} == {"images", "publish", "tag"}
    assert jobs["publish"]["needs"] == ["images"] and "publish" in jobs["tag"]["needs"]
