"""The walk-through of a throttled Produce names functions that exist and quotes what they compute."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.throttled import Throttle
from tests.conventions.sources import ROOT

PAGE: Final = ROOT / "docs" / "life-of-a-request.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
LINKED: Final = sorted(set(re.findall(r"\[`([\w.]+)`\]\(([^)#]+\.py)\)", TEXT)))
NAMED: Final = set(re.findall(r"`(\w+\.\w[\w.]*)[`=]", TEXT))
KEYS: Final = set(re.findall(r"^### `(.+)`$", (ROOT / "docs" / "configuration.md").read_text("utf-8"), re.M))

LIMIT: Final = 1_000_000
FRAME: Final = 1_000_000


def _definitions(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """The names that a module or a class defines, each with the body of what it names."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found[statement.name] = statement.body
            case ast.AnnAssign(target=ast.Name(name)):
                found[name] = []
            case ast.Assign(targets=[ast.Name(name)]):
                found[name] = []
    return found


def _defines(path: Path, names: list[str]) -> bool:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        definitions = _definitions(body)
        if name not in definitions:
            return False
        body = definitions[name]
    return True


@pytest.mark.parametrize(("name", "link"), LINKED)
def test_every_function_that_the_page_names_exists(name: str, link: str) -> None:
    path = (PAGE.parent / link).resolve()
    module, *names = name.split(".")
    if module != path.stem and module == path.parent.name:
        module, *names = names
    assert module == path.stem
    assert names
    assert _defines(path, names), f"{link} does not define {'.'.join(names)}"


def test_every_function_is_linked() -> None:
    modules = {name.split(".")[0] for name, _ in LINKED}
    named = {name for name in NAMED if name.split(".")[0] in modules} - KEYS - {"channel.read"}
    assert named == {name for name, _ in LINKED}


def test_a_name_that_does_not_exist_is_found_out() -> None:
    path = ROOT / "broker" / "network" / "processor.py"
    assert _defines(path, ["Processor", "run"])
    assert not _defines(path, ["Processor", "no_such_method"])
    assert not _defines(path, ["run"])


def _produce(quotas: ClientQuotas, at_ms: int) -> Throttle | None:
    return quotas.produce.record("ANONYMOUS", "greedy", FRAME, at_ms)


def _limited(*, paced: bool) -> ClientQuotas:
    quotas = ClientQuotas(paced=paced)
    quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", LIMIT, 0)
    return quotas


def test_the_example_is_what_the_quota_code_computes() -> None:
    quotas = _limited(paced=True)

    def produce(at_ms: int) -> tuple[int, float] | None:
        throttle = _produce(quotas, at_ms)
        return None if throttle is None else (throttle.throttle_ms, round(throttle.observed / 1e6, 1))

    assert [produce(at_ms) for at_ms in range(0, 1_000, 100)] == [None] * 10
    assert produce(1_000) == (1_000, 1.1)
    assert produce(2_000) == (9_000, 1.9)
    sensor = quotas.produce.find("ANONYMOUS", "greedy")
    assert sensor is not None
    assert [round(sensor.observed(at_ms) / 1e6, 1) for at_ms in (2_000, 10_999)] == [1.2, 1.1]
    assert produce(11_000) == (1_000, 1.2)
    assert [produce(at_ms) for at_ms in range(12_000, 30_000, 1_000)] == [(1_000, 1.1)] * 18


def test_kafkas_rule_lets_the_next_burst_through_when_the_first_has_left_the_windows() -> None:
    quotas = _limited(paced=False)
    throttles = [_produce(quotas, at_ms) for at_ms in [*range(0, 1_001, 100), 2_000, 4_000, 7_000, 11_000]]
    assert [each.throttle_ms for each in throttles if each] == [1_000, 2_000, 3_000, 4_000, 4_000]
    assert [_produce(quotas, at_ms) for at_ms in range(15_000, 15_800, 100)] == [None] * 8
