"""Requests with long work, which runs one slice at a time with a turn for other tasks in between.

The handlers of every plane add requests; `app` runs them in one task, so that only one slice runs between two
polls of the network. Requests are served one after the other, because each may have an unpacked batch in
memory, and tenants take turns: after a request of one tenant, every other waiting tenant has one request
served. A tenant is the principal of a connection or, for an anonymous connection, the address of its peer.
Within a tenant connections take turns, since each has at most one request here. The work of a closed
connection is dropped. Independent of APIs and records.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from broker.api.requests.outcome import Hangup, Outcome, Sliced
from broker.common.errors import ProtocolViolation
from broker.common.principal import ANONYMOUS
from broker.common.slices import ThreadWork, advance
from broker.network.connection.channel import Channel
from broker.network.requests.request_channel import Request
from broker.protocol.dismantle import Large, dismantle, locals_of
from broker.protocol.schema import Struct

SLICED: Final = "data-plane-kafka-request-handler-slices"

End = Callable[[], Outcome | Awaitable[Outcome]]

Conclude = Callable[[End], None]
"""Takes a function that returns what the handler returned, or raises what it raised."""

Slice = Callable[[Callable[[], None], int], None]
"""Runs a slice. Charges to the request the slice's time and the preceding processor time of a thread, in ns.
"""

ThreadClock = Callable[[], int]
"""Returns the processor time of the calling thread in nanoseconds."""


Waiting = tuple[Request, Sliced, Slice, Conclude]

GONE: Final = "the client has gone"


def tenant_of(channel: Channel) -> tuple[str, str]:
    """Return the tenant of a connection: its principal, or its address if it is anonymous. The client id is
    not part of it, because clients choose it.
    """
    principal = channel.principal
    return (principal, "") if principal != ANONYMOUS else (ANONYMOUS, channel.address)


class SlicedRequests:
    """At most one request per open connection that waits for a response, and those of closed connections."""

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
        """Queue a request. `conclude` is called once after the last slice, or never if `run` is cancelled."""
        tenant = tenant_of(request.channel)
        waiting = self._tenants.get(tenant)
        if waiting is None:
            waiting = self._tenants[tenant] = deque()
        waiting.append((request, sliced, in_slice, conclude))
        self._count += 1
        self._filled.set()

    def drop(self, message: Large | None) -> None:
        """Free a large message, list or set in slices, before the next request is served."""
        self._dropped.append(message)
        self._filled.set()

    def drop_after(self, request: Request, message: Struct) -> None:
        """Free a message in slices once the request has its response. Until then its handler may hold parts
        of the message, and the last of these parts would free the rest all at once.
        """
        self._held.append((request, message))

    def check_answered(self) -> None:
        """Check for messages to free, since a request may have been answered outside `run`."""
        if self._held:
            self._filled.set()

    def _release(self) -> None:
        """Queue for freeing the messages of answered requests, whose `frame` is None."""
        delayed, self._held = self._held, []
        for request, message in delayed:
            if request.frame is None:
                self._dropped.append(message)
            else:
                self._held.append((request, message))

    async def run(self) -> None:
        """Serve requests until cancelled."""
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
                    self._dropped += work.abort()
                else:
                    in_slice(work.advance, work.thread_ns)
            if waiting:
                self._tenants.move_to_end(tenant)
            else:
                del self._tenants[tenant]
            self._count -= 1
            conclude(work.outcome)
            del request, sliced, in_slice, conclude, work  # they may refer to a message that is freed next


class _Work:
    """The slices of one request and their outcome. `thread_ns` is a thread's processor time since the last
    slice.
    """

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
        """Run the step that the generator yielded, in a thread, or yield to other tasks."""
        self.thread_ns = 0
        if self._step is None:
            await trio.lowlevel.checkpoint()
            return
        await trio.to_thread.run_sync(self._run, self._step)

    def _run(self, unpack: ThreadWork) -> None:
        """Run a step; called in a thread."""
        begun = self._clock()
        try:
            unpack.run()
        except Exception as error:  # noqa: BLE001 - thrown into the generator, which handles it
            self._refusal = error
        finally:
            self.thread_ns = self._clock() - begun

    def advance(self) -> None:
        refusal, self._refusal = self._refusal, None
        try:
            self._step = advance(self._slices, refusal)
        except StopIteration as end:
            if end.value.__class__ is Sliced:
                self._continue(end.value)
            else:
                self._outcome, self.done = end.value, True
        except Exception as error:  # noqa: BLE001 - raised again by `outcome`, where it is reported
            self._error, self.done = error, True

    def _continue(self, sliced: Sliced) -> None:
        """Continue with the slices that the last slice returned."""
        self._slices, self._step, self._then = sliced.slices, sliced.step, sliced.then
        self._held = sliced.held

    def abort(self) -> list[Large]:
        """End the work, and return the objects made so far, to be freed in slices."""
        found = [*self._held, *locals_of(self._slices)]
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
                del error  # it refers to this frame, and to the frames of decoded messages
        assert self._outcome is not None
        return self._outcome if self._then is None else self._then(self._outcome)
