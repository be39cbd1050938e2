"""The tasks that handle requests. (Kafka: KafkaRequestHandlerPool, KafkaRequestHandler)

A handler takes requests from the request channel without awaiting as long as there are more. The batch is
then committed in one write per partition, and the processors write all its responses. Only handlers that must
wait (a metadata commit, an fsync) are awaited, one at a time, while the other tasks continue. A task of its
own runs long work in slices (`sliced_requests`) without occupying a handler: work that a handler returns as
`Sliced`, and decoding and encoding the messages of a request of more than LARGE bytes.

Handles outcomes and is independent of APIs: the route names the API's handler.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from types import CoroutineType
from typing import ClassVar, Final, Protocol, assert_never, cast

import trio

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import DelayedFetches, DelayedProduce
from broker.api.requests.error_responses import error_response
from broker.api.requests.outcome import (
    AfterCommit,
    Delayed,
    EncodedResponse,
    Hangup,
    NoResponse,
    Outcome,
    Response,
    Sliced,
    in_slices,
)
from broker.common.errors import ErrorCode, ProtocolViolation
from broker.log.background_jobs import Flush
from broker.network.clock import TrioClock
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import Frame
from broker.network.failures import FailedStep, Failures
from broker.network.handling.flush_waits import FlushWaits, Waiting
from broker.network.handling.large_messages import encode_large, handle_large
from broker.network.handling.leader_followers import LeaderFollowers
from broker.network.handling.sliced_requests import SLICED, Conclude, End, SlicedRequests
from broker.network.requests.request_channel import Request, Requests
from broker.network.requests.request_time import RequestTime
from broker.network.responder import Responder
from broker.network.selector import NO_MEMORY
from broker.network.supervisor import TaskStarter
from broker.network.throttling import Throttling
from broker.protocol.client_id import client_id_and_body
from broker.purgatory.purgatory import Purgatory

BATCH: Final = 128
"""Requests handled before other tasks run; ours. At 10 us each this delays a timer by about a millisecond."""

BATCH_NS: Final = 2_000_000
"""Time after which a batch ends; ours. Small requests can take up to three milliseconds each, and an append
that creates or rolls a log one.
"""

LARGE: Final = 4096
"""Requests of more bytes than this are decoded, and their responses encoded, in slices; ours. The most
expensive request below it has 2,000 array elements, which take one millisecond to decode and two to encode.
"""


ANY_SIZE: Final = -1
"""In place of LARGE, for a request that a handler has already handled in slices."""

CALLBACKS: Final = "data-plane-kafka-request-handler-callbacks"


class SlowWaits:
    """How long the handlers of a pool wait within slow requests, such as for a metadata commit. A handler
    that waits serves no other request, as a thread of Kafka's, but leaves the thread to others.

    `ended_ns` is the total of the waits that are over.
    """

    def __init__(self) -> None:
        self.ended_ns = 0
        self._waiting = 0
        self._began_ns = 0

    def begin(self, now_ns: int) -> None:
        """A handler begins to wait."""
        self._waiting += 1
        self._began_ns += now_ns

    def end(self, began_ns: int, now_ns: int) -> None:
        """A handler that began to wait at `began_ns` goes on."""
        self._waiting -= 1
        self._began_ns -= began_ns
        self.ended_ns += now_ns - began_ns

    def total_ns(self, now_ns: int) -> int:
        """Return the total, with the waits in progress."""
        return self.ended_ns + self._waiting * now_ns - self._began_ns


class AppendCommitter(Protocol):
    """The appends that handlers have staged. `partitions.partitions.Partitions` implements it."""

    @property
    def overdue(self) -> Collection[object]:
        """Not empty if committed appends may be acknowledged only after `overdue_flushes`."""

    def commit(self) -> None: ...

    def overdue_flushes(self) -> Sequence[Flush]: ...


@dataclass(frozen=True, slots=True)
class Completion:
    """Completes the requests that their handlers do not answer at once: commits and purgatories."""

    node_id: int
    partitions: AppendCommitter
    callbacks: Callbacks
    fetches: DelayedFetches
    produces: Purgatory[DelayedProduce]


class HandlerPool:
    """`size` tasks over one request channel, named after `plane`. `responders` is a live list of the
    responders of every processor whose requests the handlers take. The first pool runs callbacks and flush
    waits; it is `main` to the other pools.
    """

    leader_followers_type: ClassVar[type[LeaderFollowers]] = LeaderFollowers

    def __init__(
        self,
        plane: str,
        size: int,
        requests: Requests,
        completion: Completion,
        *,
        responders: Sequence[Responder],
        throttling: Throttling,
        clock: TrioClock,
        frames: FramePool,
        failures: Failures,
        main: "HandlerPool | None" = None,
    ) -> None:
        self.size = size
        self.busy: list[int] = []
        """Nanoseconds by handler, with the waits within slow requests."""
        self.waits = SlowWaits()
        self._plane = plane
        self.started = clock.ns()
        self._requests = requests
        self._completion = completion
        self._responders = responders
        self._throttling = throttling
        self._clock = clock
        self._frames = frames
        self._failures = failures
        self._nursery: TaskStarter | None = None
        self._leader_followers = self.leader_followers_type()
        self._after_commit: Waiting = []
        self.flush_waits: FlushWaits = (
            FlushWaits(completion.produces, completion.node_id, clock, self._not_flushed)
            if main is None
            else main.flush_waits
        )
        self.sliced: SlicedRequests = SlicedRequests() if main is None else main.sliced
        self._callbacks = completion.callbacks.queue
        self._callbacks_left = trio.Event()
        self._leave_callbacks = self._wake_callbacks if main is None else main._wake_callbacks
        if main is None:
            completion.callbacks.serve(self._call_back, self._wake_callbacks)
        self._request_time: RequestTime | None = None
        self._now_ms = 0
        self._wall_ms = 0
        self._last = 0
        self._outside_turns_ns = 0

    def start(self, nursery: TaskStarter) -> None:
        """Start the handlers. A later `resize` starts handlers in `nursery` too."""
        self._nursery = nursery
        self.resize(self.size)

    def resize(self, size: int) -> None:
        """Set the number of handlers, at least one. A removed handler first finishes its request; the leader
        is never removed, whatever its number. (Kafka: resizeThreadPool)
        """
        self.size = size
        if self._nursery is None:
            return
        for index in self._leader_followers.resize(size):
            self.busy += [0] * (index + 1 - len(self.busy))
            self._nursery.start_soon(self.run, index, name=self.task_name(index))

    def task_name(self, index: int) -> str:
        """Return the name of Kafka's thread."""
        return f"{self._plane}-kafka-request-handler-{index}"

    def worked_ns(self) -> int:
        """Return the thread's time for requests, their commits and callbacks, without writing responses."""
        return sum(self.busy) - self.waits.ended_ns + self._outside_turns_ns

    def measure(self, request_time: RequestTime | None) -> None:
        """Apply the request quota, or stop doing so (None)."""
        self._request_time = request_time

    async def run(self, index: int) -> None:
        """Run one handler task until it is removed, or the request channel is closed and empty.

        The leader alone waits for requests, so that one wake-up serves all requests of a poll. It promotes a
        follower before it waits for anything else.
        """
        queue = self._requests.queue_of(index)
        take = queue.receive_nowait
        now_of = self._clock.ns
        if not await self._leader_followers.take_the_lead(index):
            return
        while True:
            try:
                request = await queue.receive()
            except trio.EndOfChannel:
                self._leader_followers.dismiss()
                return
            awake = now_of()
            self._begin(awake)
            left = BATCH
            until = awake + BATCH_NS
            while True:
                slow = self._serve(request)
                if slow is not None:
                    self._last = now = now_of()
                    if self._request_time is not None:
                        self._request_time.add_handler_until(request, now)
                    self._deliver()
                    self._leader_followers.promote_follower()
                    request.local_complete = began = now_of()
                    self.waits.begin(began)
                    await self._serve_slow(request, slow)
                    self._deliver()
                    self.sliced.check_answered()
                    now = now_of()
                    self.waits.end(began, now)
                    self.busy[index] += now - awake
                    if not await self._leader_followers.take_the_lead(index):
                        return
                    break
                left -= 1
                # `_last` does not move while requests wait for their commit: the clock is read now and then.
                if not left or self._last > until or (not left & 3 and now_of() > until):
                    self._deliver()
                    self.busy[index] += self._last - awake
                    break
                try:
                    request = take()
                except (trio.WouldBlock, trio.EndOfChannel):
                    self._deliver()
                    self.busy[index] += self._last - awake
                    break

    async def run_callbacks(self) -> None:
        """Run the callbacks that a turn left over, with a turn for other tasks between, until cancelled."""
        callbacks, fetches = self._completion.callbacks, self._completion.fetches
        while True:
            await self._callbacks_left.wait()
            self._callbacks_left = trio.Event()
            for key in callbacks.take_recheck():
                fetches.complete(key)
            callbacks.queue_later(BATCH)
            self.deliver()

    def _wake_callbacks(self) -> None:
        self._callbacks_left.set()

    def deliver(self) -> None:
        """Commit staged records, complete the waiting requests, run callbacks, and write responses.

        Synchronous. Called at the end of every batch, and by callers that complete delayed requests outside a
        batch. Callbacks beyond BATCH are left to the next turn.
        """
        begun = self._begin_outside_turn()
        self._deliver()
        self._end_outside_turn(begun)

    def _begin_outside_turn(self) -> int:
        """Begin work of the pool outside a handler's turn. Returns the time."""
        self._last = begun = self._clock.ns()
        if self._request_time is not None:
            self._request_time.begin_at(begun)
        return begun

    def _end_outside_turn(self, begun: int) -> None:
        """Count the work, which ended with the last request that it completed."""
        self._outside_turns_ns += self._last - begun

    def _deliver(self) -> None:
        """Deliver at the end of a handler's own work, whose lap has just ended."""
        time = self._request_time
        if self._after_commit:
            partitions = self._completion.partitions
            partitions.commit()
            waiting, self._after_commit = self._after_commit, []
            if time is not None:
                time.share([request for request, _ in waiting])
            if partitions.overdue:
                waiting = self.flush_waits.delay(waiting, partitions.overdue_flushes())
                self._last = self._clock.ns()
            self._finish(waiting)
        callbacks = self._callbacks
        if callbacks:
            until = self._last + BATCH_NS
            for _ in range(min(len(callbacks), BATCH)):
                self._call_back(*callbacks.popleft())
                if self._last > until:
                    break
            if callbacks:
                self._leave_callbacks()
        now = self._last
        for responder in self._responders:
            if responder.responses:
                begun = now
                responder.flush(begun)
                now = self._clock.ns()
                responder.delivering_ns += now - begun

    def flushed(self, flush: Flush) -> None:
        """Complete the requests that waited for a flush; answer with an error if it failed."""
        begun = self._begin_outside_turn()
        flushed, failed = self.flush_waits.ended(flush)
        self._finish(flushed)
        self._end_outside_turn(begun)
        self._not_flushed(failed)

    def _not_flushed(self, waiting: Waiting) -> None:
        begun = self._begin_outside_turn()
        for request, after in waiting:
            self._complete(request, after.fail)
        self._end_outside_turn(begun)
        self.deliver()
        self.sliced.check_answered()

    def _finish(self, waiting: Waiting) -> None:
        for request, after in waiting:
            self._complete(request, after.finish)

    def _complete(self, request: Request, outcome_of: Callable[[], Outcome]) -> None:
        """Conclude a request that its handler did not answer immediately."""
        try:
            self._conclude(request, outcome_of())
        except Exception as error:  # noqa: BLE001 - reported, and answered as an error
            self._fail(request, FailedStep.CALLBACK, error)

    def _begin(self, now: int) -> None:
        self._last = now
        if self._request_time is not None:
            self._request_time.begin_at(now)
        self._now_ms = now // 1_000_000 + self._clock.base_ms
        self._wall_ms = self._clock.wall_ms()

    def _serve(self, request: Request) -> Awaitable[Outcome] | None:
        """Handle one request up to its outcome. Returns an awaitable of it if the handler must wait."""
        route = request.route
        frame = request.frame
        assert frame is not None
        request.dequeued = self._last
        request.now_ms = self._now_ms
        request.wall_ms = self._wall_ms
        try:
            if route.fast_path is not None:
                served = route.fast_path.serve(frame, request)
                if served is not None:
                    request.channel.client_id = request.client_id
                    self._conclude(request, served)
                    return None
            client_id, offset = client_id_and_body(frame, route.flexible)
            request.client_id = request.channel.client_id = client_id
            if request.size > LARGE:
                return self._serve_large(request, frame, offset)
            message = route.decode(frame, offset)
            request.api_key = route.api.key
            request.api_version = route.version
            outcome = route.handle(message, request, route.services)
            if outcome.__class__ is CoroutineType:
                slow: Awaitable[Outcome] = outcome
                return slow
            if outcome.__class__ is Sliced:
                return self._serve_in_slices(request, outcome)
            self._conclude(request, outcome)
        except ProtocolViolation as violation:
            request.client_id = request.channel.client_id
            self._conclude(request, Hangup(str(violation)))
        except Exception as error:  # noqa: BLE001 - reported, and answered as an error
            self._fail(request, FailedStep.HANDLE, error)
        return None

    def _serve_large(self, request: Request, frame: Frame, offset: int) -> Awaitable[Outcome] | None:
        """Serve a request of more than LARGE bytes, in slices unless the first slice completes it."""
        outcome = in_slices(handle_large(request, frame, offset, self.sliced))
        if outcome.__class__ is CoroutineType:
            slow: Awaitable[Outcome] = outcome
            return slow
        if outcome.__class__ is Sliced:
            return self._serve_in_slices(request, outcome)
        self._conclude(request, cast(Outcome, outcome))
        return None

    async def _serve_slow(self, request: Request, awaitable: Awaitable[Outcome]) -> None:
        time = self._request_time
        try:
            outcome = await (awaitable if time is None else time.run(request, awaitable))
            if time is None and self._request_time is not None:
                self._request_time.begin()
            self._conclude(request, outcome)
        except ProtocolViolation as violation:
            self._conclude(request, Hangup(str(violation)))
        except Exception as error:  # noqa: BLE001 - reported, and answered as an error
            self._fail(request, FailedStep.HANDLE, error)

    def _serve_in_slices(self, request: Request, sliced: Sliced) -> Awaitable[Outcome] | None:
        """Queue the remaining slices of a request whose first slice is done. Returns an awaitable of the
        outcome if the handler must wait for them.
        """
        self._put_sliced(request, sliced, partial(self._conclude_sliced, request))
        return None

    def _put_sliced(self, request: Request, sliced: Sliced, conclude: Conclude) -> None:
        self._last = now = self._clock.ns()
        if self._request_time is not None:
            self._request_time.add_handler_until(request, now)
        self.sliced.put(request, sliced, partial(self._run_slice, request), conclude)

    def _run_slice(self, request: Request, advance: Callable[[], None], thread_ns: int) -> None:
        begun = self._begin_outside_turn()
        advance()
        self._last = self._clock.ns()
        self._end_outside_turn(begun)
        if self._request_time is not None:
            self._request_time.add_handler_until(request, self._last)
            request.handler_ns += thread_ns

    def _conclude_sliced(self, request: Request, end: End) -> None:
        request.local_complete = self._clock.ns()
        if self._request_time is not None:
            self._request_time.begin()
        try:
            outcome = end()
            if outcome.__class__ is CoroutineType:
                assert self._nursery is not None
                self._nursery.start_soon(self._finish_slow, request, outcome, name=SLICED)
                return
            self._conclude(request, cast(Outcome, outcome), ANY_SIZE)
        except ProtocolViolation as violation:
            self._conclude(request, Hangup(str(violation)))
        except Exception as error:  # noqa: BLE001 - reported, and answered as an error
            self._fail(request, FailedStep.HANDLE, error)
        self.deliver()

    async def _finish_slow(self, request: Request, slow: Awaitable[Outcome]) -> None:
        request.local_complete = self._clock.ns()
        await self._serve_slow(request, slow)
        self.deliver()
        self.sliced.check_answered()

    def _call_back(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        """Conclude a delayed request. The time that this takes counts as local time and not as part of the
        wait, except for a response encoded in slices.
        """
        assert isinstance(context, Request)
        context.completed = 0
        begun = self._clock.ns()
        self._complete(context, outcome_of)
        if context.completed:
            context.local_complete += context.completed - begun

    def _conclude(self, request: Request, outcome: Outcome, large: int = LARGE) -> None:
        """Turn an outcome into a queued response; a request of more than `large` bytes gets its response
        encoded in slices.
        """
        time = self._request_time
        if time is not None:
            outcome = time.charge(request, outcome)
        match outcome:
            case AfterCommit():
                self._after_commit.append((request, outcome))
                return
            case EncodedResponse():
                if outcome.throttle is not None:
                    is_reported = outcome.throttle_at != 0
                    self._throttling.start(request, outcome.throttle, is_reported=is_reported)
                request.reply = outcome.frame
            case Response():
                if outcome.throttle is not None:
                    self._throttling.start(request, outcome.throttle)
                request.login = outcome.login
                if request.size > large:
                    self._respond_large(request, outcome)
                    return
                route, frame = request.route, request.frame
                errors = route.error_codes(outcome.reply)
                if errors:
                    route.metrics.count_errors(request, errors)
                parts = route.encode(outcome.reply, request.correlation_id)
                if len(parts) == 1 and isinstance(response := parts[0], bytes):
                    request.reply = response
                    if outcome.cacheable and isinstance(frame, bytes) and not (outcome.throttle or errors):
                        route.cache_response(frame, request.client_id, response, outcome.update_connection)
                else:
                    request.reply = parts
                if outcome.update_connection is not None:
                    outcome.update_connection(request.channel)
            case NoResponse():
                if outcome.throttle is not None:
                    self._throttling.start(request, outcome.throttle, is_reported=False)
            case Delayed():
                self._release(request)
                request.local_complete = self._last = self._clock.ns()
                if request.channel.fd < 0:
                    request.channel.abandon()  # it closed while its request was in the request channel
                return
            case Sliced():
                self._put_sliced(request, outcome, partial(self._conclude_sliced, request))
                return
            case Hangup():
                request.close_reason = outcome.reason
                if outcome.error:
                    request.route.metrics.count_errors(request, {outcome.error: 1})
            case _:
                assert_never(outcome)
        self._release(request)
        request.completed = self._last = now = self._clock.ns()
        request.responder.responses.append(request)
        if time is not None:
            time.add_handler_until(request, now)

    def _respond_large(self, request: Request, outcome: Response) -> None:
        """Encode a response in slices, unless the first slice completes it."""
        try:
            encoded = in_slices(encode_large(request, outcome, self.sliced))
        finally:
            if outcome.update_connection is not None:
                outcome.update_connection(request.channel)
        if encoded.__class__ is Sliced:
            self._put_sliced(request, encoded, partial(self._conclude_encoded, request))
        else:
            self._put_encoded(request, cast(EncodedResponse, encoded))

    def _conclude_encoded(self, request: Request, end: End) -> None:
        if self._request_time is not None:
            self._request_time.begin()
        try:
            outcome = end()
            if isinstance(outcome, Hangup):
                request.close_reason = outcome.reason
                outcome = EncodedResponse(None, None)
            self._put_encoded(request, cast(EncodedResponse, outcome))
        except Exception as error:  # noqa: BLE001 - reported, and answered as an error
            self._fail(request, FailedStep.HANDLE, error)
        self.deliver()

    def _put_encoded(self, request: Request, encoded: EncodedResponse) -> None:
        request.reply = encoded.frame
        self._release(request)
        request.completed = self._last = now = self._clock.ns()
        request.responder.responses.append(request)
        if self._request_time is not None:
            self._request_time.add_handler_until(request, now)

    def _release(self, request: Request) -> None:
        frame = request.frame
        request.frame = None
        if frame.__class__ is memoryview:
            assert isinstance(frame, memoryview)
            self._frames.release(frame)

    def _fail(self, request: Request, place: FailedStep, error: Exception) -> None:
        """Respond UNKNOWN_SERVER_ERROR in the API's own schema, or close the connection if the schema has no
        error code. (Kafka: KafkaApis.handleError)
        """
        route, channel = request.route, request.channel
        self._failures.report(place, error, api=route.metrics.name, connection=channel.id)
        route.metrics.count_errors(request, {ErrorCode.UNKNOWN_SERVER_ERROR: 1})
        if isinstance(error, MemoryError):
            # An error response would need the request decoded again.
            request.reply, request.close_reason = None, NO_MEMORY
            request.client_id = channel.client_id
        elif (reply := self._error_response(request)) is not None:
            request.reply = reply
        else:
            request.close_reason = "unexpected error in the broker, and no error response is possible"
        self._release(request)
        request.completed = self._last = now = self._clock.ns()
        request.responder.responses.append(request)
        if self._request_time is not None:
            self._request_time.add_handler_until(request, now)

    def _error_response(self, request: Request) -> bytes | None:
        """Return None for a request without a response, and if the error response cannot be built."""
        route, frame = request.route, request.frame
        try:
            message = None
            if frame is not None and request.size <= LARGE:
                request.client_id, offset = client_id_and_body(frame, route.flexible)
                message = route.decode(frame, offset)
            reply = error_response(
                route.api.key, max(route.version, 0), message, ErrorCode.UNKNOWN_SERVER_ERROR
            )
            if reply is None:
                return None
            return b"".join(route.encode(reply, request.correlation_id))  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - the connection is closed instead
            request.client_id = request.channel.client_id
            self._failures.report(
                FailedStep.RESPOND, error, api=route.metrics.name, connection=request.channel.id
            )
            return None
