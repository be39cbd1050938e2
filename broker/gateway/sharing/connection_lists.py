"""Lists the connections of all gateways at the console of one of them: it asks, and the others answer.

Records of `__weir_shares`, JSON in UTF-8. No gateway asks while no console shows them. The key `question
<gateway>` has what to list, the key `answer <asker> <gateway>` the list of one gateway:

    {"version": 4, "gateway": "1-5f0c", "number": 7, "search": "app", "shape": null, "sort": "bytes_in",
     "descending": true, "rows": 100}
    {"version": 4, "gateway": "2-77aa", "number": 7, "total": 1, "of": 1200, "cost_us": 900, "rows": [[...]]}

A row has the fields of `ConnectionRow` in their order; long names are cut.
"""

import json
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
import trio
from msgspec.structs import replace

from broker.common.clock import Clock
from broker.common.slices import advance, run_through
from broker.controller.rows.connections import ConnectionRow
from broker.gateway.sharing.report import MAX_COUNT, UnreadableReport, as_json, check_size, count_of, text_of
from broker.gateway.sharing.signing import Records
from broker.gateway.sharing.summary import MAX_NAME
from broker.gateway.sharing.topic_log import LogUnavailable, RecordTooLarge, TopicLog
from broker.views.connection_search import (
    DEFAULT_SORT,
    FILTERS,
    SORTS,
    ConnectionList,
    ConnectionQuery,
    RemoteConnections,
    find_connections,
)

VERSION: Final = 4

QUESTION_PREFIX: Final = b"question "
ANSWER_PREFIX: Final = b"answer "

MAX_ROWS: Final = 500
"""Of one answer."""

MAX_BYTES: Final = 262_144
"""Of the rows of one answer. Records of this size fit into any topic."""

MAX_ANSWER: Final = MAX_BYTES + 4_096
"""Bytes of an answer that is read, at once: 2 ms."""

MAX_QUESTION: Final = 4_096
"""Bytes of a question that is read. A search has MAX_NAME characters."""

ANSWERED_S: Final = 2.0
"""How long an answer is waited for."""

ASKED_EVERY_MS: Final = 1_000
"""The shortest time between two questions for the same list."""

PARTS: Final = 20
"""A gateway is asked again after so many times what its answer cost: at most a twentieth of its thread."""

MAX_QUESTIONS: Final = 4
"""Questions that wait at a gateway; more are not answered."""

MAX_REASON: Final = 200
"""Characters of what is wrong with a record that are logged."""

MAX_KEPT: Final = 16
"""Lists that are kept until they are old."""

_COLUMNS: Final = tuple(name for name in ConnectionRow.__struct_fields__ if name != "gateway")

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT - 1)]
_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("opened_at_ms", "requests", "bytes_in", "bytes_out"), _Count),
    "obeys": bool | None,
    "upstream_node": Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None,
}
"""Types of the columns that are no texts."""

_Row: Final = msgspec.defstruct("_Row", [(name, _TYPES.get(name, str)) for name in _COLUMNS], array_like=True)
"""A row of an answer. Decoding ends at the first one that is none: 90,000 others would take 6 ms."""


class Question(msgspec.Struct, frozen=True):
    """`number` counts the questions of a gateway."""

    gateway: str
    number: int
    query: ConnectionQuery


class Answer(msgspec.Struct, frozen=True):
    """The list of `gateway`; it took `cost_us` of its thread."""

    gateway: str
    number: int
    found: ConnectionList
    cost_us: int


class _Asked(msgspec.Struct):
    number: int
    missing: set[str]
    answers: list[Answer] = msgspec.field(default_factory=list)
    done: trio.Event = msgspec.field(default_factory=trio.Event)


class ConnectionLists:
    """Asks the other gateways, and answers them with `rows`, this gateway's connections."""

    def __init__(
        self,
        gateway: str,
        rows: Callable[[], Iterable[ConnectionRow]],
        others: Callable[[], Collection[str]],
        log: TopicLog,
        clock: Clock,
        records: Records,
    ) -> None:
        """`others` returns the ids of the other gateways that are there."""
        self._gateway = gateway
        self._rows = rows
        self._others = others
        self._log = log
        self._clock = clock
        self._records = records
        self._number = 0
        self._asked: _Asked | None = None
        self._asking = trio.Lock()
        self._kept: dict[ConnectionQuery, tuple[int, RemoteConnections]] = {}
        self._questions, self._received = trio.open_memory_channel[tuple[float, Question]](MAX_QUESTIONS)

    async def ask(self, query: ConnectionQuery) -> RemoteConnections:
        """Return what the other gateways list, after ANSWERED_S at most, or what they listed just before."""
        query = replace(query, search=query.search[:MAX_NAME])
        async with self._asking:
            kept = self._kept.get(query)
            if kept is not None and self._clock.ms() < kept[0]:
                return kept[1]
            missing = set(self._others())
            if not missing:
                return RemoteConnections()
            self._number += 1
            self._asked = asked = _Asked(self._number, missing)
            try:
                with trio.move_on_after(ANSWERED_S), suppress(LogUnavailable, RecordTooLarge):
                    listed = replace(query, rows=min(query.rows, MAX_ROWS))
                    question = Question(self._gateway, asked.number, listed)
                    await self._append(question_key(self._gateway), write_question(question))
                    await asked.done.wait()
            finally:
                self._asked = None
            found = _together(asked, query.rows)
            cost_us = max((each.cost_us for each in asked.answers), default=0)
            again_ms = self._clock.ms() + max(ASKED_EVERY_MS, PARTS * cost_us // 1_000)
            self._kept.pop(query, None)
            self._kept[query] = again_ms, found
            if len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return found

    def receive(self, key: bytes, value: bytes) -> None:
        """Take a question of another gateway or an answer to this one. Raises UnreadableReport."""
        if key.startswith(QUESTION_PREFIX):
            if key != question_key(self._gateway):
                # The asking gateway counts the gateways that do not answer.
                with suppress(trio.WouldBlock):
                    self._questions.send_nowait((trio.current_time(), read_question(value)))
            return
        asked = self._asked
        if asked is None or not key.startswith(answer_key(self._gateway, "")):
            return
        answer = read_answer(value)
        if answer.number == asked.number and answer.gateway in asked.missing:
            asked.missing.remove(answer.gateway)
            asked.answers.append(answer)
            if not asked.missing:
                asked.done.set()

    async def run(self) -> None:
        """Answer questions until cancelled."""
        async for received_at, question in self._received:
            if trio.current_time() - received_at > ANSWERED_S:
                continue
            found, cost_us = await self._find(question.query)
            answer = Answer(self._gateway, question.number, found, cost_us)
            # The asking gateway waits no longer than ANSWERED_S.
            with suppress(LogUnavailable, RecordTooLarge):
                await self._append(answer_key(question.gateway, self._gateway), write_answer(answer))

    async def _append(self, key: bytes, value: bytes) -> None:
        """Append a record. Raises LogUnavailable, RecordTooLarge."""
        await self._log.append(key, run_through(self._records.sign(key, value)))

    async def _find(self, query: ConnectionQuery) -> tuple[ConnectionList, int]:
        """Return the list, and what it cost in microseconds."""
        steps, cost_ns = find_connections(self._rows(), query), 0
        while True:
            began_ns = self._clock.ns()
            try:
                advance(steps)
            except StopIteration as end:
                found: ConnectionList = end.value
                return found, (cost_ns + self._clock.ns() - began_ns) // 1_000
            cost_ns += self._clock.ns() - began_ns
            await trio.lowlevel.checkpoint()


def _together(asked: _Asked, wanted: int) -> RemoteConnections:
    lists = [each.found for each in asked.answers]
    return RemoteConnections(
        tuple(replace(row, gateway=each.gateway) for each in asked.answers for row in each.found.rows),
        sum(each.total for each in lists),
        sum(each.of for each in lists),
        sum(max(min(each.total, wanted) - len(each.rows), 0) for each in lists),
        len(asked.missing),
    )


def question_key(gateway: str) -> bytes:
    return QUESTION_PREFIX + gateway.encode()


def answer_key(asker: str, gateway: str) -> bytes:
    return ANSWER_PREFIX + f"{asker} {gateway}".encode()


def write_question(question: Question) -> bytes:
    query = msgspec.structs.asdict(question.query)
    return as_json({"version": VERSION, "gateway": question.gateway, "number": question.number, **query})


def read_question(data: bytes) -> Question:
    """Raises UnreadableReport."""
    check_size(data, MAX_QUESTION)
    found = _read(data)
    try:
        shape, sort = found["shape"], found["sort"]
        if shape not in (None, *FILTERS) or sort not in (None, DEFAULT_SORT, *SORTS):
            raise UnreadableReport("unknown filter or order")
        rows = min(count_of(found["rows"]), MAX_ROWS)
        query = ConnectionQuery(text_of(found["search"]), shape, sort, found["descending"] is True, rows)
        return Question(text_of(found["gateway"]), count_of(found["number"]), query)
    except (KeyError, TypeError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {error}") from error


def write_answer(answer: Answer) -> bytes:
    """Write as many rows as fit into `MAX_BYTES`."""
    found = answer.found
    head = {
        "version": VERSION,
        "gateway": answer.gateway,
        "number": answer.number,
        "total": found.total,
        "of": found.of,
        "cost_us": answer.cost_us,
    }
    rows, size = [], 0
    for row in found.rows[:MAX_ROWS]:
        written = as_json([_short(getattr(row, name)) for name in _COLUMNS])
        size += len(written) + 1
        if size > MAX_BYTES:
            break
        rows.append(written)
    return b'%b,"rows":[%b]}' % (as_json(head)[:-1], b",".join(rows))


def read_answer(data: bytes) -> Answer:
    """Raises UnreadableReport."""
    check_size(data, MAX_ANSWER)
    try:
        found = _ANSWERS.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {str(error)[:MAX_REASON]}") from error
    rows = tuple(ConnectionRow(**msgspec.structs.asdict(each)) for each in found.rows[:MAX_ROWS])
    return Answer(found.gateway, found.number, ConnectionList(rows, found.total, found.of), found.cost_us)


class _Answer(msgspec.Struct):
    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    gateway: str
    number: _Count
    total: _Count
    of: _Count
    cost_us: _Count
    rows: list[_Row]  # type: ignore[valid-type] # a class that is made of the columns


_ANSWERS: Final = msgspec.json.Decoder(_Answer)


def _read(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise UnreadableReport(f"version {found['version']}")
        return dict(found)
    except UnreadableReport:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {error}") from error


def _short(value: Any) -> Any:
    return f"{value[: MAX_NAME - 1]}…" if isinstance(value, str) and len(value) > MAX_NAME else value
