"""Requests whose handling takes longer than others may be kept waiting: they are continued one slice at a
time, and everybody else has a turn in between.

Filled by the handlers of every plane, run by `app` as one task, so that there is one slice between two looks
at the network, however many requests wait here. They are served one after the other, because each may have an
unpacked batch in memory, and tenants take turns: after a request of one, every other tenant that waits has
one served. A tenant is the principal of a connection, or where none has logged in the address of its peer.
Within a tenant connections take turns, since each has one request here at most. The work for a connection
that is gone is dropped. Knows no API and no record.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from broker.api.outcome import Hangup, Outcome, Sliced
from broker.errors import ProtocolViolation
from broker.network.connection.channel import ANONYMOUS, Channel
from broker.network.handling.request import Request
from broker.protocol.dismantle import Large, dismantle, held_by
from broker.protocol.schema import Struct
from broker.records.slices import Unpack

SLICED: Final = "data-plane-kafka-request-handler-slices"

End = Callable[[], Outcome | Awaitable[Outcome]]

Conclude = Callable[[End], None]
"""Is given a function that returns what the handler returned, or raises what it raised."""

Slice = Callable[[Callable[[], None], int], None]
"""Runs a slice. Charges to the request the slice's time and the nanoseconds that a thread worked before."""

ThreadClock = Callable[[], int]
"""Nanoseconds of processor time of the thread that calls it."""


Waiting = tuple[Request, Sliced, Slice, Conclude]

GONE: Final = "the client has gone"


def tenant_of(channel: Channel) -> tuple[str, str]:
    """Whose turn it is when a request of this connection is served: a principal, or an address without one.
    The client id is not part of it, because clients choose it.
    """
    principal = channel.principal
    return (principal, "") if principal != ANONYMOUS else (ANONYMOUS, channel.address)


class SlicedRequests:
    """At most one for each connection that waits for an answer, and those whose connection has gone."""

    def __init__(self, thread_ns: ThreadClock = time.thread_time_ns) -> None:
        self._thread_ns = thread_ns
        self._tenants: OrderedDict[tuple[str, str], deque[Waiting]] = OrderedDict()
        self._count = 0
        self._held: list[tuple[Request, Struct]] = []
        self._dropped: deque[Large | None] = deque()
        self._filled = trio.Event()

    def __len__(self) -> int:
        return self._count

    def put(self, request: Request, sliced: Sliced, in_slice: Slice, conclude: Conclude) -> None:
        """`conclude` is called once, when the last slice is done; never if `run` is cancelled before."""
        tenant = tenant_of(request.channel)
        waiting = self._tenants.get(tenant)
        if waiting is None:
            waiting = self._tenants[tenant] = deque()
        waiting.append((request, sliced, in_slice, conclude))
        self._count += 1
        self._filled.set()

    def drop(self, message: Large | None) -> None:
        """Frees a large message, list or set a slice at a time, before the next request has its turn."""
        self._dropped.append(message)
        self._filled.set()

    def drop_after(self, request: Request, message: Struct) -> None:
        """The same once the request has its answer. Until then its handler may hold parts of the message,
        which would be freed all at once with the last of these parts.
        """
        self._held.append((request, message))

    def look(self) -> None:
        """A request may have got its answer outside of `run`."""
        if self._held:
            self._filled.set()

    def _release(self) -> None:
        """Gives up the messages of requests that have their answer; `frame` is None from then on."""
        held, self._held = self._held, []
        for request, message in held:
            if request.frame is None:
                self._dropped.append(message)
            else:
                self._held.append((request, message))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._filled.wait()
            if self._held:
                self._release()
            while self._dropped:
                for _ in dismantle(self._dropped.popleft()):
                    await trio.lowlevel.checkpoint()
            if not self._count:
                self._filled = trio.Event()
                continue
            tenant, waiting = next(iter(self._tenants.items()))
            request, sliced, in_slice, conclude = waiting.popleft()
            work = _Work(sliced, self._thread_ns)
            while not work.done:
                await work.before()
                if request.channel.fd < 0:
                    self._dropped += work.give_up()
                else:
                    in_slice(work.advance, work.thread_ns)
            if waiting:
                self._tenants.move_to_end(tenant)
            else:
                del self._tenants[tenant]
            self._count -= 1
            conclude(work.outcome)
            del request, sliced, in_slice, conclude, work  # they may hold what is dropped next


class _Work:
    """The slices of one request, and how they ended. `thread_ns` is what a thread worked since the last."""

    def __init__(self, sliced: Sliced, clock: ThreadClock) -> None:
        self._clock = clock
        self.thread_ns = 0
        self._slices = sliced.slices
        self._step = sliced.step
        self._then = sliced.then
        self._held = sliced.held
        self._refusal: Exception | None = None
        self._outcome: Outcome | Awaitable[Outcome] | None = None
        self._error: Exception | None = None
        self.done = False

    async def before(self) -> None:
        """Does what the generator asked for, and lets others have a turn."""
        self.thread_ns = 0
        if self._step is None:
            await trio.lowlevel.checkpoint()
            return
        await trio.to_thread.run_sync(self._run, self._step)

    def _run(self, unpack: Unpack) -> None:
        """In a thread."""
        begun = self._clock()
        try:
            unpack.run()
        except Exception as error:  # noqa: BLE001 - raised in the generator, which knows what to do with it
            self._refusal = error
        finally:
            self.thread_ns = self._clock() - begun

    def advance(self) -> None:
        refusal, self._refusal = self._refusal, None
        try:
            self._step = next(self._slices) if refusal is None else self._slices.throw(refusal)
        except StopIteration as end:
            if end.value.__class__ is Sliced:
                self._go_on(end.value)
            else:
                self._outcome, self.done = end.value, True
        except Exception as error:  # noqa: BLE001 - raised again by `outcome`, where it is reported
            self._error, self.done = error, True

    def _go_on(self, sliced: Sliced) -> None:
        """What the last slice has returned is in slices too."""
        self._slices, self._step, self._then = sliced.slices, sliced.step, sliced.then
        self._held = sliced.held

    def give_up(self) -> list[Large]:
        """End the work, and return what it has made so far, to be freed in slices."""
        found = [*self._held, *held_by(self._slices)]
        self._outcome, self.done, self._held = Hangup(GONE), True, ()
        try:
            with suppress(StopIteration, ProtocolViolation):
                self._slices.throw(ProtocolViolation(GONE))
            self._slices.close()
        except Exception as error:  # noqa: BLE001 - raised again by `outcome`, where it is reported
            self._error = error
        return found

    def outcome(self) -> Outcome | Awaitable[Outcome]:
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it holds this frame, and the frames of what was decoded
        assert self._outcome is not None
        return self._outcome if self._then is None else self._then(self._outcome)
