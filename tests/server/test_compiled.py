"""A build runs only while it is as new as the sources, and `weir --version` says which kind runs."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

import pytest
from click.testing import CliRunner

import broker
from broker.__main__ import main
from broker.common.version import VERSION
from broker.server.compiled import COMPILED, KIND, newer_source
from broker.start import why_interpreted

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["weir"]["compiled"]["modules"]
)
NAMES: Final = tuple(each.removesuffix(".py").replace("/", ".") for each in MODULES)
BUILT_NS: Final = 1_700_000_000_000_000_000


@pytest.fixture
def built(tmp_path: Path) -> str:
    """A checkout of one source and its build; everything has the same time stamp."""
    for package in ("protocol", "server"):
        (tmp_path / "broker" / package).mkdir(parents=True)
    for name in (
        "pyproject.toml",
        "setup.py",
        "broker/server/compiled.cpython.so",
        "broker/protocol/varint.py",
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(BUILT_NS, BUILT_NS))
    return str(tmp_path / "broker" / "server" / "compiled.cpython.so")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "broker/protocol/varint.py", "broker/new.py"])
@pytest.mark.parametrize(("change_ns", "is_newer"), [(-1_000, False), (0, False), (1_000, True)])
def test_a_build_is_refused_if_a_source_is_newer(
    built: str, name: str, change_ns: int, is_newer: bool
) -> None:
    source = Path(built).parents[2] / name
    source.touch()
    os.utime(source, ns=(BUILT_NS + change_ns, BUILT_NS + change_ns))
    assert newer_source(built) == (name if is_newer else None)


def test_only_the_build_of_a_checkout_is_compared(built: str) -> None:
    checkout = Path(built).parents[2]
    os.utime(checkout / "broker" / "protocol" / "varint.py")
    assert newer_source(built) is not None
    assert newer_source(str(checkout / "broker" / "server" / "compiled.py")) is None, "it is no build"
    (checkout / "setup.py").unlink()
    assert newer_source(built) is None, "an installed wheel"


def test_the_version_says_which_kind_runs() -> None:
    answer = CliRunner().invoke(main, ["--version"])
    why = "" if COMPILED else f": {why_interpreted()}"
    assert answer.output == f"weir, version {VERSION}, {KIND}{why}\n"
    assert (KIND == "compiled") is COMPILED


def test_all_listed_modules_are_of_the_kind_that_the_version_says() -> None:
    assert len(MODULES) == len(set(MODULES)) and list(MODULES) == sorted(MODULES)
    for name in NAMES:
        module = import_module(name)
        assert module.__file__ is not None
        assert module.__file__.endswith(".py") is not COMPILED, name


@pytest.mark.skipif(COMPILED, reason="attributes and properties of compiled classes look the same")
def test_no_property_overrides_an_attribute() -> None:
    """Compiled code that knows an object by its base class would read the attribute and miss the property."""
    found = []
    for module in map(import_module, NAMES):
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == module.__name__:
                for name, value in vars(each).items():
                    inherited = next(
                        (vars(base)[name] for base in each.__mro__[1:] if name in vars(base)), value
                    )
                    if isinstance(value, property) and not isinstance(inherited, property):
                        found.append(f"{each.__qualname__}.{name}")
    assert found == []


def test_a_class_is_compiled_with_its_bases_and_subclasses_or_not_at_all() -> None:
    """mypyc refuses a compiled class of an interpreted one at once, and the reverse when it is made."""
    names = [
        each.name for each in walk_packages(broker.__path__, "broker.") if not each.name.endswith("__main__")
    ]
    mixed = {
        f"{each.__module__}.{each.__qualname__} of {base.__module__}.{base.__qualname__}"
        for name in names
        for each in vars(import_module(name)).values()
        if isinstance(each, type)
        for base in each.__bases__
        if each.__module__ in names and base.__module__ in names
        if (each.__module__ in NAMES) is not (base.__module__ in NAMES)
    }
    assert mixed == set()


def test_no_slice_of_a_compiled_module_calls_a_function() -> None:
    """mypyc 2.4.1 evaluates the bounds of a slice twice, unless the type is list, bytes or str."""
    found = [
        f"{name}:{node.lineno}"
        for name in MODULES
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Slice)
        for each in ast.walk(node)
        if isinstance(each, ast.Await | ast.NamedExpr)
        or (isinstance(each, ast.Call) and ast.unparse(each.func) not in ("len", "min", "max"))
    ]
    assert found == []


USED_AT_ONCE: Final = {
    "all",
    "any",
    "dict",
    "join",
    "list",
    "max",
    "min",
    "next",
    "set",
    "sorted",
    "sum",
    "tuple",
}
"""Functions that are done with an iterator when they return."""


def test_no_compiled_module_needs_a_lazy_generator_expression() -> None:
    """mypyc 2.4.1 makes a list of a generator expression, and none of an endless one."""
    found = []
    for name in MODULES:
        tree = ast.parse((ROOT / name).read_text())
        used_up = {
            id(each.value if isinstance(each, ast.Starred) else each)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            for each in node.args
            if isinstance(each, ast.Starred) or ast.unparse(node.func).rpartition(".")[2] in USED_AT_ONCE
        }
        found += [
            f"{name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.GeneratorExp) and id(node) not in used_up
        ]
    assert found == []


def test_weir_refuses_a_build_that_is_older_than_a_source(tmp_path: Path) -> None:
    """And an interpreted checkout runs, whatever is new in it."""
    for name in ("broker", "webui", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "setup.py", ROOT / "pyproject.toml"):
        shutil.copy2(path, tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from broker.__main__ import main; main()"
        command = (sys.executable, "-P", "-c", start, *arguments)
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert run("top", "--help").returncode == 0
    (tmp_path / "broker" / "common" / "errors.py").touch()
    refused = run("top", "--help")
    if COMPILED:
        assert refused.returncode == 1
        assert (
            "the compiled modules are older than broker/common/errors.py: `make compiled`" in refused.stderr
        )
    else:
        assert refused.returncode == 0
