"""A source distribution and its wheel, installed where no checkout is, beside packages of the user's with the
names of Weir's: everything is in the package `weir`, and runs from there.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import zipfile
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest

from broker.__main__ import main
from broker.common.version import VERSION
from broker.protocol.messages.api_versions import ApiVersionsRequest
from deploy.weir_backend import PACKAGES
from tests.support import broker_process, gateway_process
from tests.support.broker_process import TOKEN, BrokerProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("weir", *PACKAGES)
BACKEND: Final = "deploy/weir_backend.py"
ROOT_FILES: Final = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "setup.py", BACKEND)
FILES: Final = ("*.py", "*.typed", "*.html", "*.css", "*.js", "*.svg", "*.xml", "*.java")
NAME: Final = f"weir_broker-{VERSION}"
NEWER_S: Final = 1_700_000_000

PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")

NOT_DISTRIBUTED: Final = {"tests/test_of_weir.py": "", "pipeline/jars/s3/of_maven.jar": ""}

OF_THE_USER: Final = {
    **{f"{name}/__init__.py": f"OWNER = 'the user of {name}'\n" for name in PACKAGES},
    "broker/start.py": "raise ImportError('Weir imported what is the user`s')\n",
}
SHADOWS: Final = {f"{name}/__init__.py": "raise ImportError('of the folder')\n" for name in SOURCES}

CALLBACK: Final = """
from collections.abc import Mapping
from weir import Cluster, Entity, Principal, QuotaCallback, QuotaKind

class OneForAll(QuotaCallback):
    def configure(self, configs: Mapping[str, str]) -> None: ...
    def quota_metric_tags(self, kind: QuotaKind, principal: Principal, client_id: str) -> Mapping[str, str]:
        return {"shared": "by all"}
    def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:
        return 12_345.0
    def update_quota(self, kind: QuotaKind, entity: Entity, new_value: float) -> None: ...
    def remove_quota(self, kind: QuotaKind, entity: Entity) -> None: ...
    def quota_reset_required(self, kind: QuotaKind) -> bool:
        return False
    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        return False
    def close(self) -> None: ...
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution and the wheel that is built of it."""
    folder = tmp_path_factory.mktemp("archives")
    source = copied_to(tmp_path_factory.mktemp("source"))
    written(source, NOT_DISTRIBUTED)
    make = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    _run(sys.executable, "-c", make, cwd=source)
    wheel_to = ("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder))
    _run(*PIP, *wheel_to, str(folder / f"{NAME}.tar.gz"))
    return folder


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    return archives / f"{NAME}-py3-none-any.whl"


class Installed:
    """An environment with the wheel and packages of the user's. `command` is its `weir`."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        _run(sys.executable, "-m", "venv", "--without-pip", str(folder))
        self.python, self.command = folder / "bin" / "python", folder / "bin" / "weir"
        purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.site = Path(_run(str(self.python), "-c", purelib).strip())
        written(self.site, OF_THE_USER)
        _run(*PIP, "--python", str(self.python), "install", "--no-deps", "--no-index", str(wheel))
        # No index is reachable everywhere: what Weir needs is that of this environment, behind its own.
        (self.site / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    def weir(self, *arguments: str, **environment: str) -> str:
        return _run(str(self.command), *arguments, **environment)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("fresh"), wheel)


@pytest.fixture
def in_use(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Processes of the tests are those of the wheel, in a folder that has packages of these names, too."""
    for module in (broker_process, gateway_process):
        monkeypatch.setattr(module, "WEIR", installed.command)
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder, SHADOWS)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return installed


def packaged() -> set[str]:
    """What a distribution has, by its path in the checkout."""
    found = (
        path.relative_to(ROOT)
        for package in SOURCES
        for pattern in FILES
        for path in (ROOT / package).rglob(pattern)
        if path.is_file()
    )
    return {str(path) for path in found if "jars" not in path.parts}


def test_a_source_distribution_has_the_sources_as_in_a_checkout(archives: Path) -> None:
    with tarfile.open(archives / f"{NAME}.tar.gz") as distribution:
        names = {member.name.partition("/")[2] for member in distribution if member.isfile()}
    of_setuptools = {"MANIFEST.in", "PKG-INFO", "setup.cfg"}
    sources = {name for name in names if not name.startswith("weir_broker.egg-info/")} - of_setuptools
    assert sources == packaged() | set(ROOT_FILES)


def test_a_wheel_has_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        about = f"{NAME}.dist-info"
        assert {name.partition("/")[0] for name in names} == {"weir", about}
        assert opened.read(f"{about}/top_level.txt") == b"weir\n"
        licence = opened.read(f"{about}/licenses/LICENSE").decode()
    moved = {name if name.startswith("weir/") else f"weir/{name}" for name in packaged()}
    assert {name for name in names if name.startswith("weir/")} == moved
    assert licence.split() == (ROOT / "LICENSE").read_text().split()


def test_all_that_a_wheel_imports_of_weir_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        trees = {name: ast.parse(opened.read(name)) for name in opened.namelist() if name.endswith(".py")}
    modules = {name[:-3].replace("/", ".").removesuffix(".__init__") for name in trees}
    imported = {
        (name, each) for name, tree in trees.items() for node in ast.walk(tree) for each in _imported(node)
    }
    assert len(imported) > 3_000
    assert {each for each in imported if each[1].partition(".")[0] in PACKAGES} == set()
    ours = {each for each in imported if each[1].partition(".")[0] == "weir"}
    assert len(ours) > 1_000
    assert {each for each in ours if each[1] not in modules} == set()


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_packages_of_the_user_stay_what_they_are(installed: Installed) -> None:
    names = ", ".join(PACKAGES)
    program = f"import {names}, weir, weir.broker; print(*(each.OWNER for each in ({names})), sep='\\n')"
    assert _run(str(installed.python), "-c", program).splitlines() == [f"the user of {n}" for n in PACKAGES]
    assert {name: (installed.site / name).read_text() for name in OF_THE_USER} == OF_THE_USER


def test_every_command_starts(installed: Installed) -> None:
    kind = "interpreted: installed without compiled modules"
    assert installed.weir("--version") == f"weir, version {VERSION}, {kind}\n"
    assert _run(str(installed.python), "-m", "weir", "--version") == f"weir, version {VERSION}, {kind}\n"
    commands = re.findall(r"(?m)^  ([a-z-]+)  ", installed.weir("--help").partition("Commands:")[2])
    assert set(commands) >= {*main.commands, "top", "pipeline", "simulate", "quotas"}
    for name in commands:
        assert installed.weir(name, "--help").startswith(f"Usage: weir {name} ")


async def test_a_broker_and_a_gateway_serve(in_use: Installed, tmp_path: Path) -> None:
    """With the processes that the console and the gateway start."""
    warehouse = tmp_path / "tables"
    warehouse.mkdir()
    with BrokerProcess(tmp_path / "data", f"insights.warehouse={warehouse}") as broker:
        await answers(broker.plain)
        login = seen(broker.console, "/", 401)
        assert "<h1>Log in</h1>" in login
        (script,) = re.findall(r'src="(/static/[^"]+/login.js)"', login)
        assert seen(broker.console, script) == (ROOT / "webui" / "static" / "js" / "login.js").read_text()
        broker.ask("POST", "/api/v1/topics", {"name": "t", "partitions": 1})
        broker.ask("POST", "/api/v1/topics/t/records", {"value": {"base64": "AmE="}})
        schema = {"value_schema": {"avro": '"string"'}}
        (record,) = broker.ask("POST", "/api/v1/topics/t/records:browse", schema)["items"]
        assert record["value"]["decoded"] == '"a"'
        with pytest.raises(HTTPError) as refused:
            broker.ask("GET", "/api/v1/insights/clusters")
        with refused.value as answer:
            assert json.load(answer)["code"] == "NO_TABLE"  # as the process says that reads tables
        two = "gateway.processes=2"
        with GatewayProcess(tmp_path, broker.plain, two, nodes=1) as gateway:
            await answers(gateway.bootstrap)


def seen(console: str, path: str, status: int = 200) -> str:
    try:
        # The page moves a browser to a name of the console's own, which few machines can look up.
        host = f"weir-{console.rpartition(':')[2]}.localhost:{console.rpartition(':')[2]}"
        request = urllib.request.Request(f"http://{console}{path}", headers={"Host": host})
        answer = urllib.request.urlopen(request)
    except HTTPError as error:
        answer = error
    with answer:
        assert answer.status == status
        text: str = answer.read().decode()
    return text


async def answers(address: str) -> None:
    client = await connect(int(address.rpartition(":")[2]))
    answer = await client.ask(ApiVersionsRequest("test", "1"), 3)
    assert answer.error_code == 0
    assert len(answer.api_keys) > 30


def test_a_callback_imports_from_weir(
    in_use: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one_for_all.py").write_text(CALLBACK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = "one_for_all:OneForAll"
    with BrokerProcess(tmp_path / "data", f"client.quota.callback.class={name}") as broker:
        ask = {"WEIR_TOKEN": TOKEN, "WEIR_CONSOLE": f"http://{broker.console}"}
        explained = in_use.weir("quotas", "resolve", "--user", "alice", **ask)
    assert "producer_byte_rate: 12.345 kB/s\n" in explained
    assert f"the callback {name} returns shared=by all" in explained


def test_the_trial_of_a_release_passes(in_use: Installed) -> None:
    tried = _run(str(in_use.python), "-P", str(Path(__file__).with_name("wheel_trial.py")))
    assert tried.endswith("10 records sent and received, a callback asked\n")


def test_the_same_sources_make_the_same_archives(tmp_path: Path) -> None:
    """Byte for byte, in another folder, with other times and modes of the files, as in another checkout."""
    made: list[dict[str, bytes]] = []
    for name, seconds, umask in (("one", NEWER_S, 0o022), ("other", NEWER_S + 1_000, 0o077)):
        source, archives = copied_to(tmp_path / name), tmp_path / f"{name} archives"
        for path in source.rglob("*"):
            path.chmod(path.stat().st_mode & ~umask)
            os.utime(path, (seconds, seconds))
        archives.mkdir()
        for kind in ("sdist", "wheel"):
            make = (
                "import sys; sys.path.insert(0, 'deploy'); "
                f"from weir_backend import build_{kind}; build_{kind}({str(archives)!r})"
            )
            _run(sys.executable, "-c", make, cwd=source, umask=umask, SOURCE_DATE_EPOCH=str(NEWER_S))
        made.append({path.name: path.read_bytes() for path in archives.iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"}
    with tarfile.open(tmp_path / "one archives" / f"{NAME}.tar.gz") as distribution:
        times = {member.mtime for member in distribution}
    assert times == {NEWER_S}


def copied_to(folder: Path) -> Path:
    """Copy the sources of the distribution, without what a checkout has beside them."""
    ignored = shutil.ignore_patterns("__pycache__", "jars", "*.so")
    for package in SOURCES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    (folder / "deploy").mkdir()
    for name in (*ROOT_FILES, "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _run(*command: str, cwd: Path = ROOT.parent, umask: int = -1, **environment: str) -> str:
    env = os.environ | environment
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd, env=env, umask=umask)
    return done.stdout
