"""The build backend moves imports of Weir's packages into `weir`, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.weir_backend import UnclearImportError, inside_weir, place
from tests.conventions.sources import ROOT


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from broker import start", "from weir.broker import start"),
        ("from broker.log.slice import Slice", "from weir.broker.log.slice import Slice"),
        ("from templates import x", "from weir.templates import x"),
        ("from pipeline.run import (\n    Pipeline,\n)", "from weir.pipeline.run import (\n    Pipeline,\n)"),
        ("import broker", "from weir import broker"),
        ("import broker as b", "import weir.broker as b"),
        ("import os, webui.pages as p", "import os, weir.webui.pages as p"),
        (
            "import webui.a as a, broker.b as b, os",
            "import weir.webui.a as a, weir.broker.b as b, os",
        ),
        ("def f():\n    from webui import pages", "def f():\n    from weir.webui import pages"),
        ("x = 'é'; from webui import pages", "x = 'é'; from weir.webui import pages"),
        ("import broker; import webui", "from weir import broker; from weir import webui"),
        ("x = 1\r\nfrom webui import a\r\n", "x = 1\r\nfrom weir.webui import a\r\n"),
    ],
)
def test_an_import_is_moved(source: str, expected: str) -> None:
    assert inside_weir(source.encode()) == expected.encode()


@pytest.mark.parametrize(
    "source",
    [
        "",
        "from . import broker",
        "from .broker import start",
        "from brokers import x",
        "from brokerage.log import x",
        "import broker_tools",
        "import brokers.x",
        "import my.broker",
        "from my import broker",
        "from weir import QuotaCallback",
        '"""\nfrom broker import start\nimport broker\n"""',
        "x = 'from broker import start'",
        "# import broker",
        "broker.start()",
        "import_module('broker.start')",
    ],
)
def test_all_else_stays(source: str) -> None:
    assert inside_weir(source.encode()) == source.encode()


@pytest.mark.parametrize(
    "source", ["import broker.start", "import os, broker", "import broker, webui", "import broker.a, os as o"]
)
def test_an_import_that_binds_another_name_than_it_says_is_refused(source: str) -> None:
    with pytest.raises(UnclearImportError) as refused:
        inside_weir(f"x = 1\n{source}".encode(), "a.py")
    assert str(refused.value) == f"a.py:2: use `from`, not {source}"


def test_what_is_built_is_not_copied(tmp_path: Path) -> None:
    checkout, copy = tmp_path / "checkout", tmp_path / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).touch()
    for name in (
        *("weir/__init__.py", "broker/a.py", "broker/a.cpython-311.so", "broker/__pycache__/a.pyc"),
        *("webui/static/a.js", "templates/a.html", "pipeline/pom.xml", "pipeline/jars/a.jar"),
    ):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    place(checkout, copy)
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()) == [
        *("LICENSE", "NOTICE", "README.md", "pyproject.toml", "setup.py"),
        *("weir/__init__.py", "weir/broker/a.py", "weir/pipeline/pom.xml"),
        *("weir/templates/a.html", "weir/webui/static/a.js"),
    ]


def test_a_wheel_with_other_names_is_refused(tmp_path: Path) -> None:
    """As setuptools alone would make it of a checkout."""
    command = (sys.executable, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode != 0
    assert "only `pip wheel .` makes a wheel, through deploy/weir_backend.py" in done.stderr
    assert list(tmp_path.iterdir()) == []
