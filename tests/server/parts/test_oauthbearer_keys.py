"""Reading key sets while the broker runs, on a mock clock: refreshes, failures, unknown keys, files."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.http_requests import HttpRequest
from broker.network.clock import TrioClock
from broker.security.issuer_keys import IssuerKeys, KeySource
from broker.server.parts.oauthbearer_keys import follow_keys
from tests.support.hostile import until
from tests.support.token_issuer import as_json, key_set, rsa_key, write_key_set

URL = "https://id.example/keys"
NEW_SET = key_set(as_json(rsa_key()), as_json(rsa_key("second"), kid="second"))


class Issuer:
    """An issuer in memory: what it answers, and when it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] | OSError = (200, key_set())
        self.asked: list[float] = []

    async def fetch(self, request: HttpRequest) -> tuple[int, bytes]:
        assert request == HttpRequest(URL)
        await trio.lowlevel.checkpoint()
        self.asked.append(round(trio.current_time(), 3))
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


@asynccontextmanager
async def following(issuer: Issuer, url: str = URL) -> AsyncIterator[IssuerKeys]:
    keys = IssuerKeys(KeySource(url, 60_000, 100, 1_000))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: follow_keys(keys, TrioClock(), issuer.fetch, task_status=task_status)
        )
        yield keys
        nursery.cancel_scope.cancel()


async def jump_to(clock: MockClock, seconds: float, issuer: Issuer, asked: int) -> None:
    """Let the time come, and wait until the issuer has been asked so often and its answer is read.

    A microsecond more each time makes up for sums of fractions.
    """
    clock.jump(seconds - trio.current_time() + asked * 1e-6)
    await until(lambda: len(issuer.asked) == asked)
    await settled()


async def settled() -> None:
    """Wait for threads too, which read the answers."""
    await wait_all_tasks_blocked()
    while trio.to_thread.current_default_thread_limiter().borrowed_tokens:
        await wait_all_tasks_blocked(0.01)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.endswith("oauthbearer_keys")]


async def test_keys_are_there_when_the_start_goes_on_and_are_read_again_in_time(
    mock_clock: MockClock,
) -> None:
    issuer = Issuer()
    async with following(issuer) as keys:
        assert keys.find("first", "RS256") is not None and issuer.asked == [0]
        issuer.answer = (200, NEW_SET)
        mock_clock.jump(59.999)
        await settled()
        assert issuer.asked == [0]
        await jump_to(mock_clock, 60, issuer, 2)
        assert len(keys.keys) == 2 and issuer.asked == [0, 60]


@pytest.mark.parametrize(
    "failure", [OSError("refused"), (500, b""), (302, key_set()), (200, b"<html>"), (200, b'{"keys": []}')]
)
async def test_a_start_without_keys_goes_on_with_one_line_until_there_are_some(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture, failure: tuple[int, bytes] | OSError
) -> None:
    caplog.set_level(logging.INFO)
    issuer = Issuer()
    issuer.answer = failure
    async with following(issuer) as keys:
        assert keys.keys == () and len(issuer.asked) == 1
        for number, at in enumerate((0.1, 0.3, 0.7, 1.5, 2.5, 3.5), 2):
            await jump_to(mock_clock, at, issuer, number)
        failed = "cannot read the keys of the token issuer; logins with OAUTHBEARER fail until it can"
        assert lines(caplog) == [failed]
        issuer.answer = (200, key_set())
        await jump_to(mock_clock, 4.5, issuer, 8)
        assert len(keys.keys) == 1
        assert lines(caplog) == [failed, "keys of the token issuer read"]
        assert issuer.asked == [0, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5]


async def test_later_failures_keep_the_old_keys(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    issuer = Issuer()
    async with following(issuer) as keys:
        issuer.answer = OSError("down")
        await jump_to(mock_clock, 60, issuer, 2)
        await jump_to(mock_clock, 60.1, issuer, 3)
        assert keys.find("first", "RS256") is not None
        assert lines(caplog) == ["cannot read the keys of the token issuer; the old ones stay"]


async def test_an_unknown_key_causes_one_refresh_in_ten_seconds(mock_clock: MockClock) -> None:
    issuer = Issuer()
    async with following(issuer) as keys:
        mock_clock.jump(5)
        issuer.answer = (200, NEW_SET)
        for _ in range(100):
            assert keys.find("second", "RS256") is None
        await until(lambda: len(issuer.asked) == 2)
        await settled()
        assert keys.find("second", "RS256") is not None
        for number in range(100):
            assert keys.find(f"made up {number}", "RS256") is None
        mock_clock.jump(9.999)
        await settled()
        assert issuer.asked == [0, 5]
        await jump_to(mock_clock, 15, issuer, 3)
        assert issuer.asked == [0, 5, 15]


async def test_a_file_that_changes_is_read_again(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    url = write_key_set(tmp_path)
    file = tmp_path / "keys.json"
    async with following(Issuer(), url) as keys:
        await wait_all_tasks_blocked()
        replace(file, b"{")
        await check(mock_clock)
        await check(mock_clock)
        bad = "cannot use the new keys of the token issuer; the old ones stay"
        assert lines(caplog) == [bad] and keys.find("first", "RS256") is not None
        file.unlink()
        await check(mock_clock)
        assert lines(caplog) == [bad, bad] and keys.find("first", "RS256") is not None
        replace(file, NEW_SET)
        await check(mock_clock)
        assert lines(caplog) == [bad, bad, "keys of the token issuer read"]
        assert keys.find("second", "RS256") is not None


async def check(clock: MockClock) -> None:
    clock.jump(1)
    await settled()


def replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, file)
