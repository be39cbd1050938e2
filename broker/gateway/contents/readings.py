"""What was read of the upstream cluster, how old it is, and when it is read again."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import freed
from broker.controller.rows.upstream import ReadState, RefusedRead
from broker.gateway.contents.asking import unavailable
from broker.gateway.contents.refusals import Notes
from broker.gateway.upstream.errors import UpstreamError
from broker.views.readings import Part, Readings

WAIT_S: Final = 5.0
"""How long an answer waits for a reading; ours. After that it shows the last one, or says that none is."""

SETTLE_S: Final = 1.0
"""How long all brokers may take to learn of a change; ours."""

BUSY_SHARE: Final = 10
"""A part that takes long is read again after so many times as long; ours."""

MAX_NAMED: Final = 100
"""Readings of single names that are kept; ours."""

MAX_NAMED_AT_ONCE: Final = 32
"""Single names that are read at the same time; ours. The requests of more would wait for their turn before
those of other pages and of changes, so who asks is told to try again.
"""

Read = Callable[[str, Notes], Awaitable[Any]]
"""Reads a part of a name. Notes what it cannot read. Raises UpstreamError or ApiError if it reads nothing."""


class _Reading:
    """`value` is that of the last success, `error` of the last failure since. `ended` is an event while it
    is read, else None; `is_outdated` is whether something has changed since the last one began. `begun`
    counts readings, and `succeeded` is the number of the last success.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self.read_ms: int | None = None
        self.error: ApiError | None = None
        self.incomplete = ""
        self.lists_all = False
        self.refused: tuple[RefusedRead, ...] = ()
        self.due_at = float("-inf")
        self.ended: trio.Event | None = None
        self.is_outdated = False
        self.settles_at = float("-inf")
        self.begun = 0
        self.succeeded = 0


class UpstreamReadings(Readings):
    """`max_age_ms` is gateway.upstream.views.max.age.ms. Reads nothing before `run`, and no part without a
    reader: that is at hand, as at a broker.
    """

    def __init__(self, readers: Mapping[Part, Read], max_age_ms: int, clock: Clock) -> None:
        self._readers = readers
        self._max_age_s = max_age_ms / 1_000
        self._clock = clock
        self._nursery: trio.Nursery | None = None
        self._whole: dict[Part, _Reading] = {}
        self._named: OrderedDict[tuple[Part, str], _Reading] = OrderedDict()
        self._named_now = 0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the readings until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def fresh(self, part: Part, name: str = "") -> None:
        if part not in self._readers:
            return
        reading = self._begin(part, name)
        with trio.move_on_after(WAIT_S):
            while reading.ended is not None:
                await reading.ended.wait()
                if not reading.is_outdated:
                    break
                reading = self._begin(part, name)  # something has changed since it began
        if reading.read_ms is None:
            raise reading.error or _still_read()

    async def now(self, part: Part, name: str = "") -> None:
        if part not in self._readers:
            return
        reading = self._reading(part, name)
        before = reading.begun
        reading.is_outdated, reading.due_at = True, float("-inf")
        await self.fresh(part, name)
        if reading.succeeded <= before:
            raise reading.error or _still_read()

    def want(self, part: Part, name: str = "") -> None:
        if part in self._readers:
            self._begin(part, name)

    def state(self, part: Part, name: str = "") -> ReadState | None:
        if part not in self._readers:
            return None
        reading = self._reading(part, name)
        error = reading.incomplete if reading.error is None else str(reading.error.message)
        return ReadState(error, reading.refused, reading.read_ms)

    def is_current(self, part: Part) -> bool:
        return part not in self._readers or self._reading(part, "").error is None

    def lists_all(self, part: Part) -> bool:
        return part not in self._readers or self._reading(part, "").lists_all

    def value(self, part: Part, name: str = "") -> Any:
        """Return what the last successful reading read; None before the first."""
        return self._reading(part, name).value

    def error(self, part: Part) -> ApiError | None:
        """Return why the last reading read nothing, None if it read something."""
        return self._reading(part, "").error

    def is_reading(self, part: Part) -> bool:
        return self._reading(part, "").ended is not None

    def outdate(self, part: Part, name: str = "") -> None:
        """Let a part be read again by the next who asks, since it has changed; and once more by who asks
        after SETTLE_S, since brokers learn of a change one after the other.
        """
        reading = self._reading(part, name)
        reading.is_outdated, reading.due_at = True, float("-inf")
        reading.settles_at = trio.current_time() + SETTLE_S

    def _begin(self, part: Part, name: str) -> _Reading:
        """Return the reading, which has begun again if it is old."""
        reading = self._reading(part, name)
        nursery = self._nursery
        if name and self._named_now >= MAX_NAMED_AT_ONCE:
            return reading
        if nursery is not None and reading.ended is None and trio.current_time() >= reading.due_at:
            reading.ended = trio.Event()
            self._named_now += bool(name)
            nursery.start_soon(self._read, self._readers[part], name, reading, name=f"reading of {part}")
        return reading

    def _reading(self, part: Part, name: str) -> _Reading:
        if not name:
            return self._whole.setdefault(part, _Reading())
        key = (part, name)
        reading = self._named.get(key)
        if reading is None:
            reading = self._named[key] = _Reading()
            if len(self._named) > MAX_NAMED:
                self._named.popitem(last=False)
        self._named.move_to_end(key)
        return reading

    async def _read(self, read: Read, name: str, reading: _Reading) -> None:
        notes, begun = Notes(), trio.current_time()
        wait_s = self._max_age_s
        reading.is_outdated = False
        reading.begun += 1
        number = reading.begun
        try:
            value = await read(name, notes)
        except UpstreamError as error:
            reading.error = unavailable(error)
        except ApiError as error:
            reading.error = error
        else:
            wait_s = max(wait_s, BUSY_SHARE * (trio.current_time() - begun))
            replaced, reading.value = reading.value, value
            reading.read_ms, reading.error = self._clock.wall_ms(), None
            reading.succeeded = number
            reading.incomplete = "; ".join(notes.errors)
            reading.lists_all = notes.lists_all
            reading.refused = notes.refused
            del value
            if isinstance(replaced, dict):
                rows = list(replaced.values())  # whoever reads the replaced one keeps its rows
                del replaced
                await run_slices(freed(rows))
        finally:
            ended, reading.ended = reading.ended, None
            self._named_now -= bool(name)
            assert ended is not None
            ended.set()
        if not reading.is_outdated:
            reading.due_at = reading.settles_at if begun < reading.settles_at else begun + wait_s


def _still_read() -> ApiError:
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, "The upstream cluster is still being read; try again soon.")
