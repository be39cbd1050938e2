"""Lists of connections that a gateway asks the others for, on a mock clock with a topic in memory."""

import json
import time
from contextlib import suppress

import pytest
import trio
from msgspec.structs import replace

from broker.controller.rows.connections import ConnectionRow
from broker.gateway.sharing.connection_lists import (
    ANSWERED_S,
    MAX_ANSWER,
    MAX_BYTES,
    MAX_KEPT,
    MAX_QUESTION,
    MAX_QUESTIONS,
    MAX_ROWS,
    Answer,
    ConnectionLists,
    Question,
    read_answer,
    read_question,
    write_answer,
    write_question,
)
from broker.gateway.sharing.report import MAX_COUNT, UnreadableReport
from broker.gateway.sharing.signing import Records
from broker.gateway.sharing.summary import MAX_NAME
from broker.network.clock import TrioClock
from broker.views.connection_search import ConnectionList, ConnectionQuery, RemoteConnections
from tests.support.machine_speed import PASS_S, slowness
from tests.support.memory_log import MemoryLog, MemoryTopic
from tests.webui.rows import connection

ROW = connection("app", "alice", obeys=True, upstream="kafka-1:9092", upstream_node=1, tls="TLSv1.3 X")
QUERY = ConnectionQuery("app", "tls", "bytes_in", True, 7)


class Gateway:
    def __init__(self, name: str, topic: MemoryTopic, count: int, others: tuple[str, ...]) -> None:
        self.name = name
        self.rows = [connection(f"{name} {number}", index=number) for number in range(count)]
        self.log = MemoryLog(topic, append_s=0.01, read_s=0.005)
        self.others = others
        self.lists = ConnectionLists(
            name, lambda: self.rows, lambda: self.others, self.log, TrioClock(), Records()
        )

    async def run(self, *, answers: bool = True) -> None:
        async with trio.open_nursery() as nursery:
            if answers:
                nursery.start_soon(self.lists.run)
            offset = 0
            while True:
                page = await self.log.read(offset)
                for entry in page.entries:
                    assert entry.value is not None
                    self.lists.receive(entry.key, entry.value)
                offset = page.next_offset


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


@pytest.fixture
def start(topic, nursery):
    def make(*counts: int, silent: tuple[int, ...] = ()) -> list[Gateway]:
        names = [f"g{number}" for number in range(len(counts))]
        made = [
            Gateway(name, topic, count, tuple(each for each in names if each != name))
            for name, count in zip(names, counts, strict=True)
        ]
        for number, gateway in enumerate(made):
            nursery.start_soon(
                lambda gateway=gateway, number=number: gateway.run(answers=number not in silent)
            )
        return made

    return make


async def test_all_others_answer_with_the_rows_of_the_query(autojump_clock, start):
    asker, *_ = start(3, 2, 4)
    begin = trio.current_time()
    found = await asker.lists.ask(ConnectionQuery(rows=3))
    assert trio.current_time() - begin < 0.1
    assert sorted((row.gateway, row.client_id) for row in found.rows) == [
        *(("g1", f"g1 {number}") for number in range(2)),
        *(("g2", f"g2 {number}") for number in range(3)),
    ]
    assert (found.total, found.of, found.unlisted, found.unanswered) == (6, 6, 0, 0)
    found = await asker.lists.ask(ConnectionQuery("G2 3"))
    assert [row.client_id for row in found.rows] == ["g2 3"]
    assert (found.total, found.of) == (1, 6)


async def test_nothing_is_asked_without_others(autojump_clock, start, topic):
    (alone,) = start(3)
    assert await alone.lists.ask(ConnectionQuery()) == RemoteConnections()
    assert topic.entries == []


@pytest.mark.parametrize(
    ("count", "wanted", "listed", "unlisted"),
    [
        (MAX_ROWS - 1, 1_000, MAX_ROWS - 1, 0),
        (MAX_ROWS, 1_000, MAX_ROWS, 0),
        (MAX_ROWS + 1, 1_000, MAX_ROWS, 1),
        (MAX_ROWS + 1, MAX_ROWS, MAX_ROWS, 0),
        (MAX_ROWS + 1, MAX_ROWS - 1, MAX_ROWS - 1, 0),
    ],
)
async def test_rows_beyond_the_bound_are_counted(autojump_clock, start, count, wanted, listed, unlisted):
    asker, _ = start(0, count)
    found = await asker.lists.ask(ConnectionQuery(rows=wanted))
    assert (len(found.rows), found.total, found.unlisted) == (listed, count, unlisted)


async def test_one_that_does_not_answer_is_reported_and_costs_two_seconds(autojump_clock, start):
    asker, *_ = start(0, 1, 1, silent=(2,))
    begin = trio.current_time()
    found = await asker.lists.ask(ConnectionQuery())
    assert trio.current_time() - begin == ANSWERED_S
    assert [row.gateway for row in found.rows] == ["g1"] and found.unanswered == 1


async def test_without_the_log_nobody_answers(autojump_clock, start):
    asker, *_ = start(0, 1, 1)
    await trio.sleep(1)
    asker.log.append_s, asker.log.lost = 0, 1
    found = await asker.lists.ask(ConnectionQuery())
    assert found == RemoteConnections(unanswered=2)


async def test_the_same_list_is_asked_for_once_a_second(autojump_clock, start, topic):
    asker, other = start(0, 1)
    first = await asker.lists.ask(ConnectionQuery())
    other.rows = []
    asked = trio.current_time()
    assert await asker.lists.ask(ConnectionQuery()) is first
    await trio.sleep_until(asked + 0.999)
    assert await asker.lists.ask(ConnectionQuery()) is first
    assert len(topic.entries) == 2
    await trio.sleep_until(asked + 1)
    assert (await asker.lists.ask(ConnectionQuery())).total == 0
    assert len(topic.entries) == 4


async def test_lists_that_are_kept_are_few(autojump_clock, start, topic):
    asker, _ = start(0, 1)
    for count in (MAX_KEPT, MAX_KEPT + 1):
        await trio.sleep(2)
        begin = len(topic.entries)
        for number in range(count):
            await asker.lists.ask(ConnectionQuery(f"{number}"))
        await asker.lists.ask(ConnectionQuery("0"))
        # The first is the first to go.
        asked_again = count > MAX_KEPT
        assert len(topic.entries) - begin == 2 * (count + asked_again)


async def test_questions_of_before_are_not_answered_and_few_wait(autojump_clock, topic):
    """A gateway that was busy answers those that are waited for."""
    gateway = Gateway("g1", topic, 1, ())
    for number in range(MAX_QUESTIONS + 1):
        gateway.lists.receive(b"question g0", write_question(Question("g0", number, QUERY)))
    with trio.move_on_after(1):
        await gateway.lists.run()
    assert [read_answer(entry.value).number for entry in topic.entries] == list(range(MAX_QUESTIONS))


@pytest.mark.parametrize(("after_s", "answers"), [(ANSWERED_S, 1), (ANSWERED_S + 0.001, 0)])
async def test_a_question_that_is_too_old_is_not_answered(autojump_clock, topic, after_s, answers):
    gateway = Gateway("g1", topic, 1, ())
    gateway.lists.receive(b"question g0", write_question(Question("g0", 1, QUERY)))
    await trio.sleep(after_s)
    with trio.move_on_after(1):
        await gateway.lists.run()
    assert len(topic.entries) == answers


async def test_an_answer_that_comes_late_or_twice_changes_nothing(autojump_clock, start, topic):
    asker, _ = start(0, 1)
    late = Answer("g1", 0, ConnectionList((ROW,), 1, 1), 1)
    topic.append(b"answer g0 g1", write_answer(late))
    topic.append(b"answer g0 g1", write_answer(replace(late, number=1)))
    await trio.sleep(1)
    found = await asker.lists.ask(ConnectionQuery())
    assert [row.client_id for row in found.rows] == ["g1 0"]


def test_questions_and_answers_are_read_as_they_were_written() -> None:
    question = Question("g1", 3, QUERY)
    assert read_question(write_question(question)) == question
    answer = Answer("g1", 3, ConnectionList((ROW, connection("b", obeys=None)), 9, 12), 800)
    assert read_answer(write_answer(answer)) == answer


@pytest.mark.parametrize(("count", "is_read"), [(MAX_COUNT - 2, 1), (MAX_COUNT - 1, 1), (MAX_COUNT, 0)])
@pytest.mark.parametrize("name", ["number", "total", "of", "cost_us"])
def test_counts_have_a_maximum(name: str, count: int, is_read: int) -> None:
    found = json.loads(write_answer(Answer("g1", 3, ConnectionList((ROW,), 1, 1), 1)))
    data = json.dumps(found | {name: count}).encode()
    if is_read:
        read_answer(data)
    else:
        with pytest.raises(UnreadableReport):
            read_answer(data)


@pytest.mark.parametrize(("count", "is_read"), [(MAX_COUNT - 2, 1), (MAX_COUNT - 1, 1), (MAX_COUNT, 0)])
def test_the_number_of_a_question_has_a_maximum(count: int, is_read: int) -> None:
    data = write_question(Question("g1", count, QUERY))
    if is_read:
        assert read_question(data).number == count
    else:
        with pytest.raises(UnreadableReport):
            read_question(data)


@pytest.mark.parametrize(("more", "is_read"), [(-1, True), (0, True), (1, False)])
def test_larger_records_are_not_read(more: int, is_read: bool) -> None:
    question = Question("g1", 3, QUERY)
    answer = Answer("g1", 3, ConnectionList((ROW,), 1, 1), 1)
    for written, most, read in (
        (write_question(question), MAX_QUESTION, read_question),
        (write_answer(answer), MAX_ANSWER, read_answer),
    ):
        data = written.ljust(most + more)
        if is_read:
            assert read(data) == read(written)
        else:
            with pytest.raises(UnreadableReport, match="at most"):
                read(data)


def test_a_question_with_the_longest_search_is_read() -> None:
    question = Question("g1", 3, replace(QUERY, search="\0" * MAX_NAME))
    assert read_question(write_question(question)) == question


@pytest.mark.timed
@pytest.mark.parametrize("element", [b"0", b"[]", b"{}", b'""'])
def test_no_answer_holds_the_thread(element: bytes) -> None:
    """The largest one of the shortest elements, and of the shortest rows."""
    head = b'{"version":4,"gateway":"g","number":1,"total":1,"of":1,"cost_us":1,"rows":['
    room = MAX_ANSWER - len(head) - 2
    texts = {str: b'""', int: b"0"}
    row = b"[%b]" % b",".join(texts.get(type(value), b"null") for value in row_of(ROW))
    for each in (element, row):
        count = room // (len(each) + 1)
        data = head + b",".join([each] * count) + b"]}"
        best_s = min(_thread_time(data) for _ in range(10))
        assert best_s < PASS_S or best_s < PASS_S * slowness()


def _thread_time(data: bytes) -> float:
    began = time.thread_time()
    with suppress(UnreadableReport):
        read_answer(data)
    return time.thread_time() - began


@pytest.mark.parametrize("rows", [MAX_ROWS - 1, MAX_ROWS, MAX_ROWS + 1])
def test_no_question_asks_for_more_than_an_answer_has(rows: int) -> None:
    question = Question("g1", 3, replace(QUERY, rows=rows))
    assert read_question(write_question(question)).query.rows == min(rows, MAX_ROWS)


@pytest.mark.parametrize("length", [MAX_NAME - 1, MAX_NAME, MAX_NAME + 1])
def test_long_names_are_cut(length: int) -> None:
    (row,) = listed(replace(ROW, client_id="n" * length))
    assert row.client_id == ("n" * length if length <= MAX_NAME else "n" * (MAX_NAME - 1) + "…")


@pytest.mark.parametrize(("more", "written"), [(-1, 2), (0, 2), (1, 1)])
def test_the_bytes_of_rows_are_bounded(monkeypatch: pytest.MonkeyPatch, more: int, written: int) -> None:
    size = len(json.dumps(row_of(ROW), separators=(",", ":"))) + 1
    monkeypatch.setattr("broker.gateway.sharing.connection_lists.MAX_BYTES", 2 * size - more)
    assert len(listed(ROW, ROW)) == written


def test_no_client_can_make_an_answer_too_large_for_a_topic() -> None:
    name = "\0" * 32_767
    rows = [replace(ROW, client_id=name, principal=name, software_name=name)] * MAX_ROWS
    written = write_answer(Answer("g1", 3, ConnectionList(tuple(rows), MAX_ROWS, MAX_ROWS), 1))
    assert len(written) < MAX_BYTES + 1_000
    assert 1 < len(read_answer(written).found.rows) < MAX_ROWS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version":4', '"version":5'),
        ('"total":1', '"total":-1'),
        ('"of":1', '"of":"1"'),
        ('"alice"', "7"),
        ("true", "1"),
        ('"rows":[[', '"rows":[["more",'),
        ('"number":3', '"numbers":3'),
        ('"rows"', '"row"'),
        ("}", ""),
    ],
)
def test_invalid_answers_are_refused(old: str, new: str) -> None:
    text = write_answer(Answer("g1", 3, ConnectionList((ROW,), 1, 1), 1)).decode()
    assert old in text
    with pytest.raises(UnreadableReport):
        read_answer(text.replace(old, new).encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"version":4', '"version":5'),
        ('"tls"', '"glass"'),
        ('"bytes_in"', '"colour"'),
        ('"app"', "null"),
        ('"rows":7', '"rows":-7'),
        ('"number":3', '"number":"3"'),
        ("}", ""),
    ],
)
def test_invalid_questions_are_refused(old: str, new: str) -> None:
    text = write_question(Question("g1", 3, QUERY)).decode()
    assert old in text
    with pytest.raises(UnreadableReport):
        read_question(text.replace(old, new).encode())


def listed(*rows: ConnectionRow) -> tuple[ConnectionRow, ...]:
    return read_answer(
        write_answer(Answer("g1", 3, ConnectionList(rows, len(rows), len(rows)), 1))
    ).found.rows


def row_of(row: ConnectionRow) -> list[object]:
    found: list[object] = json.loads(write_answer(Answer("g", 0, ConnectionList((row,), 1, 1), 0)))["rows"][0]
    return found
