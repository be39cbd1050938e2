"""The task that removes expired delegation tokens, on a mock clock."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ApiError, ErrorCode
from broker.config.load import load
from broker.controller.control import Control
from broker.controller.delegation_tokens import CreateDelegationToken
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.server.parts.delegation_tokens import remove_expired_tokens
from tests.controller.world import StoreCommitter

ANN = Actor("User:ann", Role.VIEWER, "10.0.0.1", ChangeOrigin.WIRE)
INTERVAL_MS = 10_000


class Removing:
    """A control with tokens and its clock."""

    def __init__(self, directory: Path) -> None:
        self.store = MetadataStore.open(directory / "metadata.sqlite", 0)
        self.committer = StoreCommitter(self.store)
        self.control = Control(
            self.store.image, load(None, ["delegation.token.secret.key=k"], {}), self.committer
        )
        self.clock = TrioClock()

    async def token(self, lifetime_ms: int) -> str:
        command = CreateDelegationToken("User:ann", (), lifetime_ms, self.clock.wall_ms())
        return (await self.control.apply(command, ANN)).token_id

    @property
    def tokens(self) -> list[str]:
        return list(self.control.image.delegation_tokens)


async def at(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds - trio.current_time())
    await wait_all_tasks_blocked()


async def test_expired_tokens_are_removed_at_each_interval(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    removing = Removing(tmp_path)
    began = trio.current_time()
    monkeypatch.setattr(removing.clock, "wall_ms", lambda: round((trio.current_time() - began) * 1_000))
    first, second, last = [await removing.token(each) for each in (9_999, 10_000, 20_001)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove_expired_tokens, removing.control, INTERVAL_MS, removing.clock)
        await wait_all_tasks_blocked()
        await at(mock_clock, began + 9.999)
        assert removing.tokens == [first, second, last]
        await at(mock_clock, began + 10)
        assert removing.tokens == [second, last]
        await at(mock_clock, began + 20)
        assert removing.tokens == [last]
        await at(mock_clock, began + 30)
        assert removing.tokens == []
        nursery.cancel_scope.cancel()
    assert [each.__dict__["tokens"] for each in caplog.records if "removed expired" in each.message] == [
        1,
        1,
        1,
    ]
    removing.store.close()


async def test_a_failed_removal_is_tried_again_at_the_next_interval(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    removing = Removing(tmp_path)
    began = trio.current_time()
    monkeypatch.setattr(removing.clock, "wall_ms", lambda: round((trio.current_time() - began) * 1_000))
    token = await removing.token(1)
    removing.committer.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove_expired_tokens, removing.control, INTERVAL_MS, removing.clock)
        await wait_all_tasks_blocked()
        await at(mock_clock, began + 10)
        assert removing.tokens == [token]
        assert "cannot remove expired delegation tokens" in caplog.text
        removing.committer.fault = None
        await at(mock_clock, began + 20)
        assert removing.tokens == []
        nursery.cancel_scope.cancel()
    removing.store.close()
