"""Login by name and password: bounded, in threads, without disclosing which names exist."""

import threading
import time

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from tests.support.machine_speed import WITHIN_S
from tests.webui.conftest import Clock
from tests.webui.fakes import FakeBroker
from webui.console import Console
from webui.problem import Problem
from webui.security import passwords

HERE, THERE = "10.0.0.7", "10.0.0.8"
GOOD = "correct horse battery"


@pytest.fixture(autouse=True)
def password(broker: FakeBroker) -> None:
    broker.passwords["vi"] = GOOD


async def attempt(console: Console, name: str = "vi", secret: str = "wrong", address: str = HERE) -> int:
    """Return the status of the refusal, or 200."""
    try:
        await console.authenticator.passwords.prove(name, secret, address)
    except Problem as problem:
        return problem.status
    return 200


async def test_a_name_is_opened_by_its_password_and_by_its_token(console: Console) -> None:
    assert [await attempt(console, secret=each) for each in (GOOD, "viewer-token")] == [200, 200]
    assert [await attempt(console, secret=each) for each in ("admin-token", "", GOOD + " ")] == [
        401,
        401,
        401,
    ]
    assert await attempt(console, "nobody", GOOD) == 401


async def test_whoever_is_refused_is_told_the_same(console: Console) -> None:
    hashes = set()
    for name, secret in (("vi", "wrong"), ("root", "wrong"), ("nobody", "wrong")):
        with pytest.raises(Problem) as caught:
            await console.authenticator.passwords.prove(name, secret, HERE)
        hashes.add((caught.value.status, caught.value.detail, tuple(caught.value.headers.items())))
    assert len(hashes) == 1


async def test_nothing_slow_is_done_in_the_thread_that_serves_clients(
    console: Console, broker: FakeBroker
) -> None:
    await attempt(console)
    await console.authenticator.passwords.hashed(GOOD, "vi")
    assert len(broker.hashing) == 2 and threading.current_thread().name not in broker.hashing


@pytest.mark.parametrize("name", ["vi", "nobody"])
async def test_an_address_and_a_name_have_five_guesses_before_they_wait(
    console: Console, clock: Clock, name: str
) -> None:
    other = "root" if name == "vi" else "vi"
    assert [await attempt(console, name) for _ in range(6)] == [401] * 5 + [429]
    # The same name from another address, and another name from this address.
    assert await attempt(console, name, address=THERE) == 429
    assert await attempt(console, other, GOOD) == 429
    assert await attempt(console, other, "wrong", THERE) == 401
    clock.ms += 999
    assert await attempt(console, name) == 429
    clock.ms += 1
    assert await attempt(console, name) == 401
    clock.ms += 1_999
    assert await attempt(console, name) == 429


async def test_a_token_opens_while_a_user_guesses_at_its_name(console: Console, clock: Clock) -> None:
    for _ in range(5):
        await attempt(console, "root")
    assert console.authenticator.bearer("admin-token", THERE).role == "admin"


async def test_the_right_password_forgives_no_wrong_one(console: Console, clock: Clock) -> None:
    assert [await attempt(console) for _ in range(4)] == [401] * 4
    assert [await attempt(console, secret=GOOD) for _ in range(3)] == [200] * 3
    assert [await attempt(console) for _ in range(2)] == [401, 429]


async def test_a_guess_that_is_given_up_has_counted(console: Console, autojump_clock: MockClock) -> None:
    for index in range(passwords.BURST):
        await attempt(console, f"name {index}", address=f"10.1.0.{index}")
    for _ in range(5):
        with trio.move_on_after(0.1):
            await attempt(console)
    assert await attempt(console, secret=GOOD) == 429


async def test_guesses_at_once_are_counted_before_they_are_looked_at(
    console: Console, broker: FakeBroker
) -> None:
    answers: list[int] = []

    async def guess(index: int) -> None:
        answers.append(await attempt(console, secret=f"guess {index}"))

    async with trio.open_nursery() as nursery:
        for index in range(200):
            nursery.start_soon(guess, index)
    assert sorted(answers) == [401] * 5 + [429] * 195 and len(broker.hashing) == 5


async def test_two_hundred_addresses_at_once_cost_two_hashes_a_second(
    console: Console, broker: FakeBroker, autojump_clock: MockClock
) -> None:
    answers: list[int] = []

    async def guess(index: int) -> None:
        answers.append(await attempt(console, f"name {index}", address=f"10.1.0.{index}"))

    async with trio.open_nursery() as nursery:
        for index in range(200):
            nursery.start_soon(guess, index)
    hashed = passwords.BURST + passwords.HASHES_PER_S * passwords.LONGEST_WAIT_S
    assert sorted(answers) == [401] * hashed + [503] * (200 - hashed)
    assert len(broker.hashing) == hashed and trio.current_time() == passwords.LONGEST_WAIT_S


async def test_one_hash_is_made_at_a_time_and_the_broker_runs_on(
    console: Console, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = [0], [0]
    going_on = threading.Event()

    class Slow:
        row = None

        def accepts(self, secret: str) -> bool:
            running[0] += 1
            most[0] = max(most[0], running[0])
            going_on.wait(WITHIN_S)
            time.sleep(0.02)
            running[0] -= 1
            return False

    monkeypatch.setattr(broker, "credentials_of", lambda name: Slow())
    guarded = passwords.Passwords(broker.backend(), console.authenticator.passwords._addresses, lambda: 0)
    done: list[int] = []

    async def guess(index: int) -> None:
        with pytest.raises(Problem):
            await guarded.prove(f"name {index}", "wrong", f"10.1.0.{index}")
        done.append(index)

    async with trio.open_nursery() as nursery:
        for index in range(passwords.BURST):
            nursery.start_soon(guess, index)
        with trio.fail_after(WITHIN_S):
            while not running[0]:  # noqa: ASYNC110 - it begins in a thread
                await trio.sleep(0.01)
        assert done == [], "this task runs while the first hash is made"
        going_on.set()
    assert most[0] == passwords.AT_ONCE and len(done) == passwords.BURST


async def test_a_user_that_gives_up_leaves_nothing_behind(
    console: Console, autojump_clock: MockClock
) -> None:
    for index in range(passwords.BURST):
        await attempt(console, f"name {index}", address=f"10.1.0.{index}")
    with trio.move_on_after(0.1) as limit:
        await attempt(console)
    assert limit.cancelled_caught
    await trio.sleep(10)
    assert await attempt(console, secret=GOOD) == 200


async def test_an_expired_name_is_not_opened_by_its_password(console: Console, broker: FakeBroker) -> None:
    broker.token_rows[2] = replace(broker.token_rows[2], expires_at_ms=broker.now_ms + 1)
    assert (await console.authenticator.sign_in_by_name("vi", GOOD, HERE, None))[0]
    broker.now_ms += 1
    with pytest.raises(Problem) as caught:
        await console.authenticator.sign_in_by_name("vi", GOOD, HERE, None)
    assert caught.value.status == 401 and "expired" in caught.value.detail
