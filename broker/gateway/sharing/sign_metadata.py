"""Signs the changes of a metadata log: those of the time before signatures, once, and all of them again after
the gateways have a new key.

Used by `weir sign-metadata`. Appends a `Beginning` and signed copies of the changes that have won. Gateways
that know the changes skip the copies, which come too late to win; a gateway that cannot verify the originals
finds the copies. Whatever interrupts this, the next call goes on.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import uuid4

import msgspec
import trio

from broker.common.slices import run_through
from broker.gateway.sharing.commits import (
    Beginning,
    Commit,
    NewerCommit,
    UnreadableCommit,
    read_commit,
    write_beginning,
)
from broker.gateway.sharing.metadata_log import LOCAL_ROWS
from broker.gateway.sharing.signing import Refusal, RefusedRecord, SignedRecords, key_id_of
from broker.gateway.sharing.topic_log import TopicLog, TopicLogRecord

ATTEMPTS: Final = 100
"""Surveys of a log to which gateways append meanwhile; ours."""


class CannotSign(Exception):  # noqa: N818 - describes the log
    """The log has records that prevent it; the text says which."""


class CommitRecord(msgspec.Struct, frozen=True):
    """A commit and the bytes that it was read from."""

    commit: Commit
    data: bytes


class _Rows:
    """The changes that hold for a reader that accepts some of the records."""

    def __init__(self) -> None:
        self.won: list[CommitRecord] = []
        self.next = LOCAL_ROWS + 1
        self.begun: int | None = None

    def take(self, found: Commit | Beginning, data: bytes) -> None:
        if isinstance(found, Beginning):
            self.begun = max(self.begun or 0, found.last)
            return
        if self.begun is None:
            self.begun = LOCAL_ROWS
        if found.first == self.next:
            self.won.append(CommitRecord(found, data))
            self.next = found.last + 1

    @property
    def is_complete(self) -> bool:
        return self.begun is not None and self.next > self.begun


class Survey:
    """The contents of a log. `unsigned` are the changes without a signature that must be adopted, none if the
    log is signed; `is_done` says whether all changes are signed with the first key.
    """

    def __init__(self, signed: _Rows, by_first: _Rows, old: _Rows, foreign: str | None) -> None:
        """Raises CannotSign."""
        if signed.begun is None and foreign is not None:
            raise CannotSign(f"the log has {foreign}, and none that is signed with one of the keys here")
        self.unsigned: Sequence[CommitRecord] = ()
        self.changes = signed.won
        if signed.begun is None:
            self.unsigned = self.changes = old.won
        elif not signed.is_complete:
            # An adoption was interrupted. What it announced is adopted, and nothing else.
            self.unsigned = [each for each in old.won if signed.next <= each.commit.first <= signed.begun]
            self.changes = [*signed.won, *self.unsigned]
        self.last = self.changes[-1].commit.last if self.changes else LOCAL_ROWS
        if signed.begun is not None and self.last < signed.begun:
            raise CannotSign(f"the log has no row {self.last + 1}, and should end with {signed.begun}")
        self.missing = [each for each in self.changes if each.commit.first >= by_first.next]
        self.begins = by_first.begun is None or (bool(self.missing) and by_first.begun < self.last)

    @property
    def is_done(self) -> bool:
        return not self.begins and not self.missing


async def survey(log: TopicLog, records: SignedRecords, first_key: str) -> Survey:
    """Read the log. `records` is used for it only once. Raises LogUnavailable, CannotSign."""
    signed, by_first, old = _Rows(), _Rows(), _Rows()
    foreign: str | None = None
    offset, end = 0, await log.end()
    while offset < end:
        page = await log.read(offset)
        for entry in page.entries:
            await trio.lowlevel.checkpoint()
            if entry.value is None:
                continue
            is_signed = True
            try:
                data = run_through(records.open(entry.key, entry.value))
            except RefusedRecord as error:
                if error.refusal is not Refusal.UNSIGNED:
                    foreign = str(error)
                    continue
                is_signed, data = False, entry.value
            found = await _read(entry, data)
            if found is None or (isinstance(found, Beginning) and not is_signed):
                continue
            if not is_signed:
                old.take(found, data)
                continue
            signed.take(found, data)
            if key_id_of(entry.value) == first_key:
                by_first.take(found, data)
        offset = page.next_offset
        records.read_up_to(offset, 0)
    return Survey(signed, by_first, old, foreign)


async def sign(
    log: TopicLog,
    new_records: Callable[[], SignedRecords],
    first_key: str,
    confirm: Callable[[Survey], Awaitable[None]],
) -> int:
    """Sign what is not signed with the first key, and return the number of records that were appended.

    `confirm` sees the first survey, and raises CannotSign to prevent it. Raises LogUnavailable,
    RecordTooLarge and CannotSign.
    """
    appended = 0
    for attempt in range(ATTEMPTS):
        records = new_records()
        found = await survey(log, records, first_key)
        if found.is_done:
            return appended
        if not attempt:
            await confirm(found)
        copies = [each.data for each in found.missing]
        if found.begins:
            copies.insert(0, write_beginning(found.last))
        for data in copies:
            key = f"signed-{uuid4().hex}".encode()
            await log.append(key, run_through(records.sign(key, data)))
            appended += 1
    raise CannotSign(f"gateways changed the log during each of {ATTEMPTS} attempts: try again later")


async def _read(entry: TopicLogRecord, data: bytes) -> Commit | Beginning | None:
    """Return what a record says, None if no gateway reads it. Raises CannotSign."""
    try:
        return await trio.to_thread.run_sync(read_commit, data)
    except UnreadableCommit:
        return None
    except NewerCommit as error:
        raise CannotSign(f"{error}, at offset {entry.offset}") from error
