"""The walk-through of a throttled Produce names functions that exist, quotes what they compute, and lists the
files that a request really enters.
"""

import ast
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.throttled import Throttle
from broker.server.compiled import COMPILED
from tests.conventions.sources import ROOT
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import running_broker

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


WALKERS: Final = re.compile(r"network-thread|kafka-request-handler|ThrottledChannelReaper-Produce")
"""The tasks that handle the request."""

FILES: Final = re.findall(r"`(broker/[\w/]+\.py)`", TEXT.partition("## The files")[2].partition("\n## ")[0])


def _walk(frame: FrameType) -> str | None:
    """Return the file of the broker that a task of the request enters, or None."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT / "broker"):
        return None
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:  # between two tasks
        return None
    return str(path.relative_to(ROOT)) if WALKERS.search(task.name) else None


@pytest.mark.skipif(COMPILED, reason="a profile function does not see what compiled code calls")
async def test_the_page_lists_the_files_that_a_throttled_produce_enters(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """With one record of 100 B. What a client repeats with each request is known from the ones before."""
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (file := _walk(frame)) is not None:
            entered.add(file)

    async with running_broker(tmp_path, "events.topics=requests,throttles") as broker:
        client = await broker.connect("greedy")
        await client.ask(create_topic(), 5)
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 100)
        request = produce_request(batch_of(b"x" * 100))
        answered, image = 0, None
        # Weir creates the topics of its events meanwhile: after that, a request knows nothing.
        while answered < 10 or image is not broker.server.control.image:
            entered.clear()
            answered, image = answered + 1, broker.server.control.image
            sys.setprofile(profile)
            try:
                answer = await client.ask(request, PRODUCE_VERSION)
                mock_clock.jump(answer.throttle_time_ms / 1_000)
                await wait_all_tasks_blocked()
            finally:
                sys.setprofile(None)
        assert answer.throttle_time_ms > 0 and broker.server.views.quotas.throttled() == []
    assert (entered - set(FILES), set(FILES) - entered) == (set(), set())
