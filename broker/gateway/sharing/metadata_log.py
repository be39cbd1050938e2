"""The metadata of all gateways of a cluster: rules, subscriptions, tokens and their audit trail as one log.

Takes the place of the local committer of `broker.controller`. A change is planned against the newest state,
appended to `__weir_metadata` with the number of its first row, and in force once it is read back. Every
gateway accepts the first record with the number that comes next and ignores all others with it, so of two
writers that race, one wins, and all gateways, these two too, agree on which. So the log itself compares and
sets: it needs no transactions, and a writer that was away for long can only lose.

The loser's change is appended again with the next number, unless the winner changed an entity that it
changes, too; then it is refused like any other stale edit.

Each gateway keeps the accepted changes in its own metadata store: for its start without the cluster, for the
image, and for the audit trail. Rows have the same numbers everywhere.

Records are signed (`signing`), and gateways skip all others. The first signed record is a `Beginning`, which
the first gateway appends to an empty log, and `weir sign-metadata` to one that was written without signatures
or whose key is replaced: then signed copies of its rows follow, and a gateway without the former key finds
all of them before it follows.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Final, TypeVar
from uuid import uuid4

import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.gateway.sharing.commits import (
    Beginning,
    Commit,
    NewerCommit,
    UnreadableCommit,
    read_commit,
    write_beginning,
    write_commit,
)
from broker.gateway.sharing.signing import Records, Refusal, RefusedRecord
from broker.gateway.sharing.topic_log import (
    LogLost,
    LogRefused,
    LogUnavailable,
    RecordTooLarge,
    TopicLog,
    TopicLogPage,
    TopicLogRecord,
)
from broker.metadata.actor import Actor
from broker.metadata.changes import KNOWN_KINDS, AuditFilter, AuditRow, Change
from broker.metadata.image import Image
from broker.metadata.sealing import is_secret
from broker.network.metadata_writer import MetadataWriter

logger = logging.getLogger(__name__)

LOCAL_ROWS: Final = 1
"""Rows that a new metadata store has by itself: the cluster id. The log goes on from there."""

CATCH_UP_S: Final = 2.0
"""The longest wait for the others' changes before a change is planned."""

COMMIT_S: Final = 15.0
"""The longest time that a commit takes."""

APPEND_AGAIN_S: Final = 1.0
"""After an append that may have failed, the time to look for its record before the next attempt."""

RETRY_S: Final = 0.5

WARNING_MS: Final = 1_000
"""Minimum interval between warnings of unreadable commits."""

OLD_LOG: Final = (
    "its changes are not signed, as an earlier version of Weir or gateway.cluster.protection=acl wrote them: "
    "stop all gateways, and run `weir sign-metadata` once with this configuration"
)

HALF_SIGNED: Final = (
    "not all of its changes are signed with a key of this gateway: run `weir sign-metadata` again"
)

NO_KEY: Final = "its changes are signed, and this gateway has no key: set gateway.cluster.keys.location"

READ_AT_ONCE: Final = 16_384
"""Bytes of a commit that is read on the event loop; ours. Larger ones are read in a thread: 10,000 changes
take 200 ms.
"""

Result = TypeVar("Result")

Check = Callable[[Sequence[Change]], None]
"""Raises ConfigError if a change cannot be in force at this gateway. `Control.check_adoptable`."""

Adopt = Callable[[Image, Sequence[Change], Actor], Awaitable[None]]
"""Publishes a change that another gateway made. `Control.adopt`."""


class LogDiverged(Exception):  # noqa: N818 - describes the log
    """The log and the local store have different rows, or this version cannot read the log."""


class UnsignedLog(LogDiverged):
    """The log must be signed first: `weir sign-metadata`."""


class MetadataLog:
    """A `broker.controller.control.Committer`. Call `attach` before `run` and before the first change.

    `problem` says why this gateway can neither follow nor change the metadata, None if it can;
    `must_be_signed` whether `weir sign-metadata` mends it; `is_refused` whether the cluster can have none.
    """

    def __init__(
        self,
        gateway: str,
        log: TopicLog,
        local: MetadataWriter,
        last_row: AuditRow,
        clock: Clock,
        records: Records,
    ) -> None:
        """`local` is this gateway's own metadata store, `last_row` the last row of it."""
        self.problem: str | None = None
        self.must_be_signed = False
        self.is_refused = False
        self.followed = trio.Event()
        """Set once everything is known that was in the log at the start, or never can be."""
        self._gateway = gateway
        self._log = log
        self._local = local
        self._clock = clock
        self._adopt: Adopt | None = None
        self._check: Check = lambda _changes: None
        self._offset = 0
        # The number of the next row of the log, and of the next one of the local store, which has been there
        # before.
        self._next = LOCAL_ROWS + 1
        self._local_next = last_row.seq + 1
        self._last_row = last_row
        self._pending: Commit | None = None
        self._committed: Image | None = None
        self._changed: set[tuple[str, str]] = set()
        self._is_failing = False
        self._has_unknown = False
        self._warned_ms: int | None = None
        self._records = records
        # The last row of a log that a Beginning announces, None without one, and the last row that was found
        # before its predecessors while the log was read for the first time.
        self._begun: int | None = None
        self._ahead = 0
        self._foreign: str | None = None
        # The number of the next row of a log without signatures.
        self._old_next = LOCAL_ROWS + 1

    def attach(self, adopt: Adopt, check: Check) -> None:
        """Publish the changes of other gateways through `adopt`, after `check`."""
        self._adopt = adopt
        self._check = check

    async def run(self) -> None:
        """Follow the log until cancelled. Ends, with an error in the log, if it cannot be followed."""
        end: int | None = None
        while True:
            try:
                if end is None:
                    end = await self._log.end()
                if self._offset >= end and not self.followed.is_set():
                    self._check_all_read()
                    if self._records.is_signed and self._begun is None:
                        await self._append(f"beginning-{uuid4().hex}", write_beginning(LOCAL_ROWS))
                    self.followed.set()
                page = await self._page()
                self._note(None)
                if page.next_offset > self._offset:
                    async with self._local.exclusive():
                        await self._apply_all(page.entries, page.next_offset)
                else:
                    self._records.read_up_to(self._offset, self._clock.ms())
            except LogRefused as error:
                self.is_refused = True
                self._end(error)
                return
            except (LogUnavailable, RecordTooLarge) as error:
                self._note(error)
                await trio.sleep(RETRY_S)
            except ApiError as error:
                logger.error("a change of another gateway was not stored", extra={"reason": str(error)})
                await trio.sleep(RETRY_S)
            except LogDiverged as error:
                self.must_be_signed = isinstance(error, UnsignedLog)
                self._end(error)
                return

    def _end(self, error: Exception) -> None:
        """Log that the metadata cannot be followed."""
        self.problem = str(error)
        logger.error("cannot follow the metadata of the cluster", extra={"reason": self.problem})
        self.followed.set()

    def _check_all_read(self) -> None:
        """Raise LogDiverged unless the whole log, which has been read, goes with the local store."""
        if self._begun is None and self._foreign is not None:
            raise LogDiverged(f"the log has {self._foreign}, and none that this gateway believes")
        if self._begun is None and self._old_next > LOCAL_ROWS + 1:
            raise UnsignedLog(OLD_LOG)
        if self._next <= (self._begun or 0):
            raise UnsignedLog(HALF_SIGNED)
        if self._ahead >= self._next:
            raise LogDiverged(f"the log goes on with row {self._ahead} after {self._next - 1}")
        if self._next < self._local_next:
            raise LogDiverged(f"the log ends with row {self._next - 1}, the local metadata has more")

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the local store, with everything that others committed before."""
        async with self._local.exclusive():
            if self.problem is None:
                with trio.move_on_after(CATCH_UP_S):
                    await self._catch_up()
            yield

    def exclusive_here(self) -> AbstractAsyncContextManager[object]:
        return self._local.exclusive()

    async def _catch_up(self) -> None:
        try:
            end = await self._log.end()
            while self._offset < end:
                await self._read()
        except (LogUnavailable, LogDiverged, ApiError):
            pass  # `commit` finds out, and `run` reports it

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Append the changes to the log, wait until they are read back, and return the image with them.

        Raises ApiError: INVALID_UPDATE_VERSION if another gateway has changed the same entity meanwhile,
        MESSAGE_TOO_LARGE, INVALID_CONFIG for a password, and KAFKA_STORAGE_ERROR if the log is out of reach;
        then the changes may be applied later. Cancellation is delivered when the commit is decided.
        """
        if any(is_secret(each.kind.value, each.key) for each in changes):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                "A password cannot be changed for all gateways; set it in the configuration of each, and "
                "upstream credentials in the file of upstream.sasl.jaas.config.location",
            )
        if self.problem is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.problem)
        if self._next < self._local_next or (self._records.is_signed and not self.followed.is_set()):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "The cluster's log of changes is out of reach")
        commit = Commit(uuid4().hex, self._gateway, self._next, self._clock.wall_ms(), actor, changes)
        self._pending, self._committed = commit, None
        self._changed.clear()
        try:
            with trio.move_on_after(COMMIT_S, shield=True):
                return await self._commit(commit)
        except LogDiverged as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        finally:
            self._pending = self._committed = None
        raise ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            "The cluster's log of changes is out of reach; the change may still be applied",
        )

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        return await self._local.in_slices(steps, to_the_end=to_the_end)

    def to_the_end(self) -> AbstractContextManager[object]:
        return self._local.to_the_end()

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        return await self._local.history(wanted)

    async def _commit(self, commit: Commit) -> Image:
        """Append the commit until it has won or cannot win any more. Each record has a key of its own: if two
        had the same, compaction would remove the first, which may be the one that has won, and another
        gateway's record that has lost to it would win at the next that reads the log from its beginning.
        """
        attempts = 0
        while True:
            first = self._next
            if not self._changed.isdisjoint(commit.entities):
                raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "Another gateway has changed it meanwhile")
            attempt = Commit(commit.id, commit.gateway, first, commit.time_ms, commit.actor, commit.changes)
            look_for_s = COMMIT_S
            attempts += 1
            try:
                await self._append(f"{commit.id}-{attempts}", write_commit(attempt))
            except RecordTooLarge as error:
                raise ApiError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"The change is too large for the cluster's log: {error}"
                ) from error
            except LogUnavailable:
                look_for_s = APPEND_AGAIN_S
            with trio.move_on_after(look_for_s):
                while self._next == first:
                    await self._read_or_wait()
            if self._committed is not None:
                return self._committed

    async def _append(self, name: str, value: bytes) -> None:
        key = name.encode()
        signed = await self._local.in_slices(self._records.sign(key, value))
        await self._log.append(key, signed)

    async def _read_or_wait(self) -> None:
        try:
            await self._read()
        except LogUnavailable:
            await trio.sleep(RETRY_S)

    async def _page(self) -> TopicLogPage:
        """Raises LogDiverged for a log that has lost records: it may begin again with other changes, which
        must not take the place of those in force.
        """
        try:
            return await self._log.read(self._offset)
        except LogLost as error:
            raise LogDiverged(f"the topic has lost changes that were in force: {error}") from error

    async def _read(self) -> None:
        page = await self._page()
        await self._apply_all(page.entries, page.next_offset)

    async def _apply_all(self, entries: Sequence[TopicLogRecord], next_offset: int) -> None:
        """Apply records that may have been applied meanwhile. If cancelled, the next call goes on.

        Stops after the gateway's own commit: Control publishes it when `commit` returns, and what follows in
        the log must be published after it.
        """
        for entry in entries:
            if entry.offset >= self._offset:
                if entry.value is not None:
                    with trio.CancelScope(shield=True):
                        await self._apply(entry)
                self._offset = entry.offset + 1
                if self._committed is not None:
                    return
        self._offset = max(self._offset, next_offset)
        self._records.read_up_to(self._offset, self._clock.ms())

    async def _apply(self, entry: TopicLogRecord) -> None:
        offset, data = entry.offset, entry.value
        assert data is not None
        try:
            commit = await self._opened(entry.key, data)
        except RefusedRecord as error:
            await self._refuse(entry, error)
            return
        except UnreadableCommit as error:
            self._warn(offset, "unreadable commit", str(error))
            await trio.lowlevel.checkpoint()
            return
        except NewerCommit as error:
            raise LogDiverged(str(error)) from error
        if isinstance(commit, Beginning):
            if self._records.is_signed:
                self._begun = max(self._begun or 0, commit.last)
            return
        if self._begun is None and self._records.is_signed:
            self._begun = LOCAL_ROWS
        if commit.first < self._next:
            return  # it has lost
        if commit.first > self._next:
            if not self.followed.is_set():
                self._ahead = max(self._ahead, commit.last)  # `weir sign-metadata` has copied it, too
                return
            raise LogDiverged(f"the log goes on with row {commit.first} after {self._next - 1}")
        if commit.last >= self._local_next:
            await self._apply_new(commit)
        else:
            self._check_known(commit)
        self._next = commit.last + 1

    async def _opened(self, key: bytes, data: bytes) -> Commit | Beginning:
        """Return what a record says. Raises RefusedRecord, UnreadableCommit and NewerCommit."""
        return await _read(lambda: read_commit(run_through(self._records.open(key, data))), data)

    async def _refuse(self, entry: TopicLogRecord, error: RefusedRecord) -> None:
        """Skip a record that is refused, and count it, unless it is of a log without signatures."""
        await trio.lowlevel.checkpoint()
        if not self._records.is_signed:
            raise LogDiverged(NO_KEY) from error
        if error.refusal is Refusal.UNSIGNED and self._begun is None and not self.followed.is_set():
            await self._note_old(entry.value or b"")
            return
        if not self.followed.is_set():
            if error.refusal is not Refusal.UNSIGNED:
                self._foreign = str(error)
            return  # it was counted when it came
        self._records.refused.add(error.refusal, self._clock.ms())
        self._warn(entry.offset, "a record of the metadata is not believed", str(error))

    async def _note_old(self, data: bytes) -> None:
        """Note a commit of the time before signatures."""
        try:
            commit = await _read(lambda: read_commit(data), data)
        except (UnreadableCommit, NewerCommit):
            return
        if isinstance(commit, Commit) and commit.first == self._old_next:
            self._old_next = commit.last + 1

    async def _apply_new(self, commit: Commit) -> None:
        if commit.first != self._local_next:
            raise LogDiverged(f"row {commit.last} of the log is not in the local metadata, which has others")
        try:
            self._check(commit.changes)
        except ConfigError as error:
            raise LogDiverged(f"row {commit.first} of the log cannot be applied here: {error}") from error
        self._note_unknown(commit)
        image = await self._local.commit_at(commit.changes, commit.actor, commit.time_ms)
        self._local_next = image.version + 1
        if self._pending is not None and commit.id == self._pending.id:
            self._committed = image
            return
        self._changed |= commit.entities
        assert self._adopt is not None
        await self._adopt(image, commit.changes, commit.actor)

    def _note_unknown(self, commit: Commit) -> None:
        """Log the first change whose kind only a later version knows."""
        unknown = next((each.kind.value for each in commit.changes if each.kind not in KNOWN_KINDS), None)
        if unknown is not None and not self._has_unknown:
            self._has_unknown = True
            logger.warning(
                "a later version of Weir made a change that this one keeps and does not apply",
                extra={"kind": unknown, "row": commit.first, "gateway": commit.gateway},
            )

    def _check_known(self, commit: Commit) -> None:
        """Compare the last row of the local store with the log's."""
        row, change = self._last_row, commit.changes[-1]
        if commit.last == row.seq:
            known = (row.time_ms, row.actor, row.kind, row.entity, row.key, row.new)
            place = (change.kind.value, change.entity, change.key, change.new)
            if known != (commit.time_ms, commit.actor.name, *place):
                raise LogDiverged(f"row {row.seq} of the local metadata is not that of the cluster's log")

    def _warn(self, offset: int, what: str, reason: str) -> None:
        """Log a record that is skipped, and at most one in `WARNING_MS`: there may be thousands of them."""
        now_ms = self._clock.ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_MS:
            self._warned_ms = now_ms
            logger.warning(what, extra={"offset": offset, "reason": reason})

    def _note(self, error: Exception | None) -> None:
        """Log the first failure, and its end."""
        if self._is_failing is not (error is not None):
            self._is_failing = error is not None
            if error is not None:
                logger.warning("cannot read the metadata of the cluster", extra={"reason": str(error)})
            else:
                logger.info("can read the metadata of the cluster again")


async def _read(read: Callable[[], Result], data: bytes) -> Result:
    """Return the result of `read`, which reads `data`: in a thread if that takes long."""
    return read() if len(data) <= READ_AT_ONCE else await trio.to_thread.run_sync(read)
