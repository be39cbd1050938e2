"""Docstrings and comments name only modules, classes and functions that exist.

A name with dots is looked up if its first part is a package of ours. `broker.` may be left out, and so may
the packages of the file that has the name, as in `live.broadcaster` in a file of webui.
"""

import ast
import builtins
import keyword
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from broker.config.table import SPELLINGS
from tests.conventions.sources import ROOT, Module, modules

DOTTED: Final = re.compile(r"(?<![\w./@$-])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?![\w*/@-]|\.[\w*])")
QUOTED: Final = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)?)(?:\(\))?`(?!`)")
COMMENT: Final = re.compile(r"(?:^|\s)# (.*)")
FILE: Final = re.compile(r"(?<![\w./-])((?:\w+/)+\w+\.py)\b")

OTHER_NAMES: Final = frozenset(
    (
        *("broker.id", "broker.quota", "broker.quotas.produce.active", "metadata.version", "share.version"),
        *("metrics.num.samples", "metrics.sample.window.ms", "share.auto.offset.reset", "security.protocol"),
        *("server.properties", "common.network", "http.request", "gold.usage_per_minute"),
        *("connectionQuotas", "memoryPool", "consistent", "erroneous", "errorReadingData", "bounded_N_ms"),
        *("weir.telemetry_receivers", "weir.test"),
    )
)
"""Names of Kafka, of other libraries, of tables, a group and a host that look like ours."""


@cache
def _modules() -> dict[str, Module]:
    return {module.name[:-3].replace("/", ".").removesuffix(".__init__"): module for module in modules()}


@cache
def _packages() -> frozenset[str]:
    return frozenset(
        name for name, module in _modules().items() if module.path.name == "__init__.py" or "." not in name
    )


@cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    found = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return found


@cache
def _attributes() -> frozenset[str]:
    """Return the attributes that code takes of a name or an attribute, as `quotas.fetch_active`."""
    found = set()
    for module in modules():
        for node in module.nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                    found.add(f"{owner}.{name}")
    return frozenset(found)


@cache
def _words() -> frozenset[str]:
    """Return the names and the one-word texts of all code."""
    found = {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names}
    for name, module in _modules().items():
        found.update(name.split("."))
        for node in module.nodes:
            match node:
                case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.alias(name=word):
                    found.add(word)
                case ast.keyword(arg=str(word)) | ast.Constant(value=str(word)) | ast.alias(asname=str(word)):
                    found.add(word)
                case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
                    found.add(word)
    return frozenset(found)


def _defined(body: list[ast.stmt]) -> set[str]:
    """Return the names that the statements of a module or a class bind."""
    found = set()
    for statement in body:
        for node in ast.walk(statement):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    found.add(name)
                case ast.alias(name=name, asname=other):
                    found.add(other or name)
    return found


def _has(class_name: str, member: str) -> bool:
    """Return whether a class of this name has a member, or a base that is not ours."""
    for found in _classes()[class_name]:
        if member in _defined(found.body):
            return True
        for base in found.bases:
            name = base.id if isinstance(base, ast.Name) else ""
            if name not in ("Protocol", "Exception") and (name not in _classes() or _has(name, member)):
                return True
    return False


def _exists(name: str) -> bool:
    """Return whether a full name is a module's, or that of something in one."""
    module, _, member = name, "", ""
    while module not in _modules():
        module, _, last = module.rpartition(".")
        member = f"{last}.{member}" if member else last
        if not module:
            return False
    first, _, second = member.partition(".")
    if first and first not in _defined(_modules()[module].tree.body):
        return False
    return not second or first not in _classes() or _has(first, second.partition(".")[0])


def _texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings and comments with their numbers."""
    for number, line in enumerate(module.text.split("\n"), 1):
        if found := COMMENT.search(line):
            yield number, found[1]
    for node in module.nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.split("\n"), node.lineno)


def _missing(module: Module, text: str) -> Iterator[str]:
    """Yield the names in a text that stand for nothing."""
    parents = module.name.split("/")[:-1]
    prefixes = ["", "broker.", *(".".join(parents[: end + 1]) + "." for end in range(len(parents)))]
    for name in DOTTED.findall(text):
        first = name.partition(".")[0]
        if name in SPELLINGS or name in OTHER_NAMES or name in _attributes() or name.endswith(".py"):
            continue
        is_ours = any(prefix + first in _packages() for prefix in prefixes)
        if is_ours and not any(_exists(prefix + name) for prefix in prefixes):
            yield name
    for name in QUOTED.findall(text):
        first, _, member = name.partition(".")
        if name not in OTHER_NAMES and (first not in _words() if not member else _lacks(first, member)):
            yield name
    for name in FILE.findall(text):
        folders = ("", "broker/", *("/".join(parents[: end + 1]) + "/" for end in range(len(parents))))
        if name not in OTHER_NAMES and not any((ROOT / folder / name).exists() for folder in folders):
            yield name


def _lacks(first: str, member: str) -> bool:
    return first in _classes() and not _has(first, member)


def _module(text: str) -> Module:
    return Module(ROOT / "broker" / "quotas" / "usage.py", text, ast.parse(text))


@pytest.mark.parametrize(
    "name",
    [
        "broker.quotas.absent",
        "quotas.absent",
        "broker.quotas.usage.Absent",
        "quotas.usage.ClientSensor.absent",
        "`ClientSensor.absent`",
        "`quite_absent()`",
        "broker/quotas/absent.py",
    ],
)
def test_a_name_of_nothing_is_found(name: str) -> None:
    found = [*_missing(_module(""), f"See {name}.")]
    assert found[:1] == [name.strip("`").removesuffix("()")]


@pytest.mark.parametrize(
    "name",
    [
        "broker.quotas.usage",
        "quotas.usage",
        "broker.quotas.usage.ClientSensor.rate",
        "`ClientSensor.rate`",
        "`gateway.quotas`",
        "log.retention.ms",
        "upstream.ssl.*",
        "quotas.fetch_active",
        "broker/quotas/usage.py",
        "KafkaApis.handle",
    ],
)
def test_a_name_that_exists_is_not_found(name: str) -> None:
    assert [*_missing(_module(""), f"See {name}.")] == []


def test_docstrings_and_comments_name_what_exists() -> None:
    assert [
        f"{module.name}:{line}: {name}"
        for module in modules()
        if not module.derived and module.name != "tests/conventions/test_docstring_names.py"
        for line, text in _texts(module)
        for name in dict.fromkeys(_missing(module, text))
    ] == []
