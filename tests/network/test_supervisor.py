"""A task that fails is named and ends the tree; a task that fails to start raises in its caller."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import FatalExitError
from broker.network.supervisor import LastError, Supervisor, open_supervisor


def fatal_of(error: BaseException) -> list[FatalExitError]:
    if isinstance(error, BaseExceptionGroup):
        return [each for one in error.exceptions for each in fatal_of(one)]
    assert isinstance(error, FatalExitError)
    return [error]


async def ends_with(begin: Callable[[Supervisor], Awaitable[None]]) -> list[FatalExitError]:
    """The fatal errors with which a supervised nursery ends whose body is `begin`."""

    async def tree() -> None:
        async with open_supervisor() as tasks:
            await begin(tasks)

    with pytest.raises(BaseExceptionGroup) as raised:
        await tree()
    return fatal_of(raised.value)


async def breaks() -> None:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("a bolt")


async def breaks_inside() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaks)


async def gives_up() -> None:
    async with trio.open_nursery():
        raise FatalExitError("enough", status=3)


@pytest.mark.parametrize("failing", [breaks, breaks_inside])
async def test_an_error_that_escapes_names_the_task_and_ends_the_others(failing: object) -> None:
    ended = False

    async def other() -> None:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended = True

    async def begin(tasks: Supervisor) -> None:
        tasks.start_soon(other, name="other")
        tasks.start_soon(failing, name="log-flusher")  # type: ignore[arg-type]

    (fatal,) = await ends_with(begin)
    assert str(fatal) == "log-flusher failed: RuntimeError: a bolt" and fatal.status == 1
    assert ended and fatal.__cause__ is not None


async def test_a_fatal_error_keeps_its_words_and_its_status() -> None:
    async def begin(tasks: Supervisor) -> None:
        tasks.start_soon(gives_up, name="handler-0")

    (fatal,) = await ends_with(begin)
    assert str(fatal) == "handler-0 failed: enough" and fatal.status == 3


async def test_the_innermost_supervisor_signs() -> None:
    async def outer() -> None:
        async with trio.open_nursery() as nursery:
            Supervisor(nursery).start_soon(breaks, name="inner")

    async def begin(tasks: Supervisor) -> None:
        tasks.start_soon(outer, name="outer")

    assert [each.task for each in await ends_with(begin)] == ["inner"]


async def test_a_task_that_cannot_start_is_its_callers_trouble() -> None:
    async def taken(*, task_status: trio.TaskStatus[None]) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("the port is taken")

    async with open_supervisor() as tasks:
        with pytest.raises(OSError, match="the port is taken"):
            await tasks.start(taken, name="console")


async def test_a_task_that_fails_after_its_start_ends_the_broker() -> None:
    async def serves_a_while(*, task_status: trio.TaskStatus[int]) -> None:
        task_status.started(8080)
        await breaks()

    async def begin(tasks: Supervisor) -> None:
        assert await tasks.start(serves_a_while, name="console") == 8080
        await trio.sleep_forever()

    assert [str(each) for each in await ends_with(begin)] == ["console failed: RuntimeError: a bolt"]


async def test_cancelling_is_no_failure() -> None:
    async with open_supervisor() as tasks:
        tasks.start_soon(trio.sleep_forever, name="reaper")
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


async def test_an_error_that_was_swallowed_ends_the_tree_all_the_same() -> None:
    last = LastError()

    async def page() -> None:
        try:
            raise FatalExitError("a change could not be applied")
        except FatalExitError as error:
            last.report(error)
            last.report(FatalExitError("a later one"))

    async def begin(tasks: Supervisor) -> None:
        tasks.start_soon(last.wait, name="fatal-errors")
        tasks.start_soon(page, name="page")

    assert [str(each) for each in await ends_with(begin)] == ["page failed: a change could not be applied"]
