"""Which suites a change can leave out of CI."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOUCHED = Path(__file__).parents[1] / ".ci" / "touched"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: the second one changes docs and the broker."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(TOUCHED, tmp_path / ".ci")
    for folder in ("docs", "broker", "pipeline"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").touch()
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    (tmp_path / "docs" / "file").write_text("changed")
    (tmp_path / "broker" / "file").write_text("changed")
    commit(tmp_path)
    return tmp_path


def git(repository: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=repository, check=True
    )


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "change")


def touches(repository: Path, *paths: str, **environment: str) -> bool:
    command = [str(repository / ".ci" / "touched"), *paths]
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=variables, check=False, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    ("paths", "expected"),
    [(["pipeline"], False), (["broker"], True), (["pipeline", "broker"], True), (["docs/file"], True)],
)
def test_a_suite_runs_if_one_of_its_paths_has_changed(
    repository: Path, paths: list[str], expected: bool
) -> None:
    assert touches(repository, *paths, CI_BASE="HEAD~1") is expected


def test_all_suites_run_without_a_base_or_when_asked_to_or_for_an_unknown_base(repository: Path) -> None:
    assert touches(repository, "pipeline")
    assert touches(repository, "pipeline", CI_BASE="HEAD~1", CI_ALL="1")
    assert touches(repository, "pipeline", CI_BASE="unknown")


@pytest.mark.parametrize("shared", ["Makefile", "requirements/dev.txt", "tests/support/a.py", ".ci/run"])
def test_all_suites_run_if_what_they_share_has_changed(repository: Path, shared: str) -> None:
    path = repository / shared
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed")
    commit(repository)
    assert touches(repository, "pipeline", CI_BASE="HEAD~1")


def test_a_change_that_is_not_committed_counts(repository: Path) -> None:
    (repository / "pipeline" / "file").write_text("changed")
    assert touches(repository, "pipeline", CI_BASE="HEAD")


def test_every_test_and_folder_that_a_target_names_exists() -> None:
    root = Path(__file__).parents[1]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    paths = []
    for prefix, names in re.findall(r"\$\((?:addprefix|patsubst %,) ?(tests/[^,]*),([^$]+?)\)", makefile):
        paths += [prefix.replace("%", name) if "%" in prefix else prefix + name for name in names.split()]
    paths += re.findall(r"(?<=[ ,])tests/[\w/]+(?:\.py)?(?=[ )])", makefile)
    for given in re.findall(r"if needs \S+ ([^;]+);", (root / ".ci/run").read_text(encoding="utf-8")):
        for path in given.replace("\\", " ").split():
            folder, _, names = path.rstrip("}").partition("{")
            paths += [folder + name for name in names.split(",")]
    assert len(paths) > 20
    assert [path for path in paths if not (root / path).exists()] == []
