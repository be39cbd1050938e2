"""When Python's collector walks what has survived."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker import app


@pytest.mark.parametrize(
    ("idle", "survived", "collected"),
    [
        (True, app.SURVIVORS - 1, 0),
        (True, app.SURVIVORS, 1),
        (False, app.MOST_SURVIVORS - 1, 0),
        (False, app.MOST_SURVIVORS, 1),
    ],
)
async def test_not_while_a_large_message_is_in_memory_unless_it_must(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any, idle: bool, survived: int, collected: int
) -> None:
    walked: list[int] = []
    collector = SimpleNamespace(get_count=lambda: (0, survived, 0), collect=walked.append)
    monkeypatch.setattr(app, "gc", collector)
    sliced = SimpleNamespace(idle=idle)
    house: Any = SimpleNamespace(server=SimpleNamespace(handlers=SimpleNamespace(sliced=sliced)))
    with trio.move_on_after(1.5 * app.COLLECTION_CHECK_SECONDS):
        await app._collect_garbage(house)
    assert len(walked) == collected


async def test_every_fiftieth_walk_is_of_everything(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    walked: list[int] = []
    collector = SimpleNamespace(get_count=lambda: (0, app.SURVIVORS, 0), collect=walked.append)
    monkeypatch.setattr(app, "gc", collector)
    sliced = SimpleNamespace(idle=True)
    house: Any = SimpleNamespace(server=SimpleNamespace(handlers=SimpleNamespace(sliced=sliced)))
    with trio.move_on_after(100.5 * app.COLLECTION_CHECK_SECONDS):
        await app._collect_garbage(house)
    assert walked == ([1] * 49 + [2]) * 2
