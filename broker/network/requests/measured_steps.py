"""The steps of a coroutine that a handler awaits, each measured as a lap of its request."""

from collections.abc import Awaitable, Generator
from typing import Any, Protocol, TypeVar

from broker.network.requests.request_channel import Request

Result = TypeVar("Result")


class Laps(Protocol):
    """Measures laps. `request_time.RequestTime` implements it."""

    def begin(self) -> None: ...

    def add_handler(self, request: Request) -> None: ...


class MeasuredSteps(Awaitable[Result]):
    """Runs a coroutine and measures each of its steps, without the time of other tasks between two steps."""

    __slots__ = ("_request", "_slow", "_time")

    def __init__(self, time: Laps, request: Request, slow: Awaitable[Result]) -> None:
        self._time = time
        self._request = request
        self._slow = slow

    def __await__(self) -> Generator[Any, Any, Result]:
        time, request = self._time, self._request
        steps = self._slow.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            time.begin()
            try:
                trap = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                time.add_handler(request)
            value = error = None
            try:
                value = yield trap
            except BaseException as thrown:  # noqa: BLE001 - the coroutine handles cancellation too
                error = thrown
