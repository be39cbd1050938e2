"""The task that writes a gateway's reports and summaries and reads those of all gateways. Started by the
gateway's server.

A log that cannot be read or written stops nothing: the gateway goes on with its last shares until their lease
ends, and then with what a gateway has that has just begun. The beginning and the end of a failure are one
line each.
"""

import logging
import math
from collections.abc import Callable
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.slice_runner import run_slices
from broker.gateway.sharing import client_summary
from broker.gateway.sharing.client_summary import client_key_of
from broker.gateway.sharing.connection_lists import ANSWER_PREFIX, QUESTION_PREFIX, ConnectionLists
from broker.gateway.sharing.member import LEASE_MS, SharingMember
from broker.gateway.sharing.report import (
    Report,
    UnreadableReport,
    check_size,
    read_report,
    reads_as,
    write_report,
)
from broker.gateway.sharing.signing import Records, RefusedRecord
from broker.gateway.sharing.summary import KEY_PREFIX, key_of, read_summary, write_summary
from broker.gateway.sharing.topic_log import (
    LogLost,
    LogUnavailable,
    RecordTooLarge,
    TopicLog,
    TopicLogRecord,
)
from broker.gateway.sharing.views import Summaries

logger = logging.getLogger(__name__)

ROUND_S: Final = 1.0
"""The interval of reports and of summaries."""

SHARES_TIMEOUT_MS: Final = 1_500
"""After this time without a response, a connection to the topic is opened anew; ours. The next report follows
at once, a second after the last one at the earliest, and the lease has as much time left for another failure.
"""

READ_BACK_S: Final = 3.0
"""The longest wait for a gateway's own report, which alone raises its shares, before it writes the next."""

WRITE: Final = "write the reports"

FAREWELL_S: Final = 1.0
RETRY_S: Final = 0.5

WARNING_MS: Final = 1_000
"""Minimum interval between warnings of unreadable records."""

MAX_BYTES: Final = 1_048_588
"""Of a record, with its signature: what a topic takes by default. Compressed ones may have more."""


class SharingTask:
    """Runs one `member`. `is_failing` says whether the log could not be read or written last. `announced` is
    set when a report of this gateway has been read back: gateways that begin later know it.
    """

    def __init__(
        self,
        member: SharingMember,
        log: TopicLog,
        clock: Clock,
        records: Records,
        on_report: Callable[[str], None] = lambda _gateway: None,
        summaries: Summaries | None = None,
        lists: ConnectionLists | None = None,
    ) -> None:
        """`on_report` is called with the id of the gateway of each report. Without `summaries` none are
        written or read; without `lists`, no connections are listed.
        """
        self.is_failing = False
        self.announced = trio.Event()
        self._member = member
        self._log = log
        self._clock = clock
        self._records = records
        self._on_report = on_report
        self._summaries = summaries
        self._lists = lists
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._lock = trio.Lock()
        self._offset = 0
        self._awaited: tuple[int, trio.Event] = (0, trio.Event())
        self._read_back = trio.Event()
        self._sent: tuple[bytes, Report | None] = (b"", None)
        self._is_caught_up = False
        self._warned_ms: int | None = None
        self._failures = dict.fromkeys(
            ("read the reports", WRITE, "write the summary", "write the clients"), False
        )

    async def run(self) -> None:
        """Run until cancelled, or until `leave` is called, then say farewell, for at most a second."""
        try:
            with self._scope:
                end = await self._end()
                async with trio.open_nursery() as nursery:
                    await nursery.start(self._read_all, end)
                    nursery.start_soon(self._write_all)
                    nursery.start_soon(self._expire_shares)
                    if self._summaries is not None:
                        nursery.start_soon(self._write_summaries, self._summaries)
                    if self._lists is not None:
                        nursery.start_soon(self._lists.run)
        finally:
            with trio.move_on_after(FAREWELL_S, shield=True):
                await self._append_report(self._member.farewell())
            self._ended.set()

    async def leave(self) -> None:
        """End `run`, and wait for its farewell, while the upstream cluster can still be reached."""
        self._scope.cancel()
        await self._ended.wait()

    async def _end(self) -> int:
        """Return the end of the log. The connections to it may still be starting at the first attempt."""
        is_first = True
        while True:
            try:
                return await self._log.end()
            except LogUnavailable as error:
                if not is_first:
                    self._note("read the reports", error)
                is_first = False
                await trio.sleep(RETRY_S)

    async def _read_all(self, end: int, task_status: trio.TaskStatus[None]) -> None:
        """Read for ever. Started once everything up to `end` is read: then the other gateways are known."""
        is_started = False
        while True:
            if not self._is_caught_up and self._offset >= end:
                self._is_caught_up = True
                if not is_started:
                    task_status.started()
                is_started = True
            try:
                page = await self._log.read(self._offset)
            except LogLost as error:
                logger.warning(
                    "the topic of reports has lost records, and is read from its beginning",
                    extra={"reason": str(error)},
                )
                self._offset, self._is_caught_up = 0, False
                self._records.begin_again()
                end = await self._end()
                continue
            except LogUnavailable as error:
                self._note("read the reports", error)
                await trio.sleep(RETRY_S)
                continue
            self._note("read the reports", None)
            if page.entries:
                await self._receive(page.entries)
            self._offset = page.next_offset
            self._records.read_up_to(self._offset, self._clock.ms())

    async def _receive(self, entries: tuple[TopicLogRecord, ...]) -> None:
        async with self._lock:
            for entry in entries:
                await trio.lowlevel.checkpoint()
                if entry.value is None:
                    continue
                try:
                    check_size(entry.value, MAX_BYTES)
                    value = await run_slices(self._records.open(entry.key, entry.value))
                    await self._receive_record(entry.key, value)
                except RefusedRecord as error:
                    self._refuse(entry.offset, error)
                except UnreadableReport as error:
                    self._warn(entry.offset, "unreadable report", str(error))
            await run_slices(self._member.enforce(self._clock.ms()))

    async def _receive_record(self, key: bytes, value: bytes) -> None:
        """Raises UnreadableReport."""
        if key.startswith((KEY_PREFIX, client_summary.KEY_PREFIX)):
            await self._receive_summary(key, value)
        elif key.startswith((QUESTION_PREFIX, ANSWER_PREFIX)):
            if self._lists is not None and self._is_caught_up:
                self._lists.receive(key, value)
        else:
            await self._receive_report(value)

    def _refuse(self, offset: int, error: RefusedRecord) -> None:
        """Count a record that is refused, unless it was there before the start."""
        if self._is_caught_up:
            self._records.refused.add(error.refusal, self._clock.ms())
            self._warn(offset, "a report is not believed", str(error))

    async def _receive_report(self, value: bytes) -> None:
        """Raises UnreadableReport."""
        member = self._member
        sent, report = self._sent
        if value != sent or report is None:
            report = await run_slices(read_report(value))
        await run_slices(member.receive(report))
        self._on_report(report.gateway)
        if report.leaving and self._summaries is not None:
            self._summaries.forget(report.gateway)
        await trio.lowlevel.checkpoint()
        if report.gateway == member.gateway:
            self._read_back.set()
            self._read_back = trio.Event()
            if report.number == self._awaited[0]:
                self._awaited[1].set()
                self.announced.set()

    def _warn(self, offset: int, what: str, reason: str) -> None:
        """Log a record that is skipped, and at most one in `WARNING_MS`: there may be thousands of them."""
        now_ms = self._clock.ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_MS:
            self._warned_ms = now_ms
            logger.warning(what, extra={"offset": offset, "reason": reason})

    async def _receive_summary(self, key: bytes, value: bytes) -> None:
        """Read a summary of another gateway, but none from before the start. Raises UnreadableReport."""
        summaries, own = self._summaries, self._member.gateway
        if summaries is None or not self._is_caught_up:
            return
        if key.startswith(KEY_PREFIX):
            if key != key_of(own):
                summaries.receive(read_summary(value), self._clock.ms())
        elif summaries.keeps_clients and key != client_key_of(own):
            clients = await run_slices(client_summary.read_in_steps(value))
            summaries.receive_clients(clients, self._clock.ms())

    async def _write_all(self) -> None:
        while True:
            due = trio.current_time() + ROUND_S
            async with self._lock:
                report = await run_slices(self._member.report(self._clock.ms()))
            read_back = trio.Event()
            self._awaited = report.number, read_back
            is_written = False
            with trio.move_on_after(READ_BACK_S) as limit:
                is_written = await self._append_report(report)
                if is_written:
                    await read_back.wait()
            if limit.cancelled_caught and not is_written:
                self._note(WRITE, LogUnavailable(f"not written within {READ_BACK_S:.0f} s"))
            await trio.sleep_until(due)

    async def _expire_shares(self) -> None:
        """Enforce the end of the shares' lease when no report has been read back for too long."""
        member, clock = self._member, self._clock
        while True:
            ends_ms = None if member.has_expired else member.lease_ends_ms
            left_s = math.inf if ends_ms is None else max(ends_ms - clock.ms(), 0) / 1_000
            with trio.move_on_after(left_s):
                await self._read_back.wait()
                continue
            async with self._lock:
                await run_slices(member.enforce(clock.ms()))
            if member.has_expired:
                logger.warning(
                    "the shares of this gateway have expired", extra={"lease_s": LEASE_MS // 1_000}
                )

    async def _write_summaries(self, summaries: Summaries) -> None:
        """Measure once a second, and write the summary if there are other gateways."""
        member = self._member
        while True:
            due = trio.current_time() + ROUND_S
            summary = await run_slices(summaries.measure())
            if member.has_others:
                key, value = key_of(member.gateway), write_summary(summary)
                await self._append("write the summary", key, value)
                if summaries.measure_clients is not None:
                    clients = await run_slices(summaries.measure_clients())
                    value = await run_slices(client_summary.write_in_steps(clients))
                    await self._append("write the clients", client_key_of(member.gateway), value)
            await trio.sleep_until(due)

    async def _append_report(self, report: Report) -> bool:
        """Return whether the report is in the log for certain."""
        value = await run_slices(write_report(report))
        self._sent = value, report if reads_as(report, value) else None
        return await self._append(WRITE, self._member.gateway.encode(), value)

    async def _append(self, what: str, key: bytes, value: bytes) -> bool:
        try:
            await self._log.append(key, await run_slices(self._records.sign(key, value)))
        except (LogUnavailable, RecordTooLarge) as error:
            self._note(what, error)
            return False
        self._note(what, None)
        return True

    def _note(self, what: str, error: Exception | None) -> None:
        """Log the first failure, and its end."""
        failures = self._failures
        if failures[what] is not (error is not None):
            failures[what] = error is not None
            if error is not None:
                logger.warning(f"cannot {what} of gateways", extra={"reason": str(error)})
            else:
                logger.info(f"can {what} of gateways again")
        self.is_failing = any(failures.values())
