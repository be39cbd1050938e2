"""What a client process tells reaches the ledgers, whenever the process ends."""

import os

import pytest

from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.clients.teller import Teller, runs
from benchmarks.soak.group_ledger import Place
from benchmarks.soak.relay import Relay
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import COPY, SOURCE, TRANSACTIONS

GROUP = "readers-aiokafka"


class Pipe:
    """A client process and the soak's side of it, without the process."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        self.tell = Teller(writing)
        self.stage = Stage(0, "", 1, Anomalies(()))
        self.relay = Relay(self.stage, "someone")
        self._writing = writing

    def end(self) -> Stage:
        """Relay what was told; then the process ends."""
        os.close(self._writing)
        with open(self._reading, "rb") as told:
            for line in told:
                self.relay.hear(line.rstrip(b"\n"))
        self.relay.end()
        return self.stage


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


def anomalies(stage: Stage) -> list[tuple[str, str]]:
    return [(each.source, each.text) for each in stage.anomalies.found()]


def test_a_record_with_and_without_a_place(pipe: Pipe) -> None:
    pipe.tell.sending(SOURCE, 8)
    pipe.tell.acknowledged(SOURCE, 1, 5, 7)
    pipe.tell.acknowledged(SOURCE, 0, None, 6)
    pipe.tell.acknowledged(SOURCE, 0, -1, 5)
    ledger = pipe.end().ledgers[SOURCE]
    assert (ledger.sent, ledger.count) == (8, 3)
    assert ledger.promised().by_partition == {1: {5: 7}}
    assert ledger.promised().anywhere == {5, 6}


def test_the_next_number_never_goes_back(pipe: Pipe) -> None:
    pipe.tell.sending(SOURCE, 8)
    pipe.tell.sending(SOURCE, 4)
    assert pipe.end().ledgers[SOURCE].sent == 8


def test_transactions_end_in_three_ways(pipe: Pipe) -> None:
    pipe.tell.begin(TRANSACTIONS, [0, 1])
    pipe.tell.commit(TRANSACTIONS, [(0, 10, 0), (1, 3, 1)])
    pipe.tell.begin(TRANSACTIONS, [2])
    pipe.tell.abort(TRANSACTIONS)
    pipe.tell.begin(TRANSACTIONS, [3, 4])
    promised = pipe.end().ledgers[TRANSACTIONS].promised()
    assert promised.by_partition == {0: {10: 0}, 1: {3: 1}}
    assert promised.aborted == {2}
    assert promised.undecided == (frozenset([3, 4]),)


def test_a_transaction_that_another_follows_is_undecided(pipe: Pipe) -> None:
    pipe.tell.begin(TRANSACTIONS, [0])
    pipe.tell.begin(TRANSACTIONS, [1])
    pipe.tell.commit(TRANSACTIONS, [(0, 4, 1)])
    assert pipe.end().ledgers[TRANSACTIONS].promised().undecided == (frozenset([0]),)


def test_copies_are_acknowledged_by_their_commit(pipe: Pipe) -> None:
    pipe.tell.commit(COPY, [(2, 9, 77)])
    assert pipe.end().ledgers[COPY].promised().by_partition == {2: {9: 77}}


def test_deliveries_and_commits_of_a_group(pipe: Pipe) -> None:
    pipe.tell.delivered(GROUP, {(SOURCE, 0): [0, 1, 4], (SOURCE, 1): [0]})
    pipe.tell.committed(GROUP, {(SOURCE, 0): 5, (SOURCE, 1): 1})
    group = pipe.end().groups[GROUP]
    assert (group.delivered_count, group.commits) == (4, 1)
    assert group.skipped() == {Place(SOURCE, 0): {2, 3}, Place(SOURCE, 1): set()}
    assert group.promised_commits() == {Place(SOURCE, 0): 5, Place(SOURCE, 1): 1}


def test_an_error_keeps_its_time_and_the_first_line_of_its_text(pipe: Pipe) -> None:
    pipe.tell.error("librdkafka", ValueError("one\ntwo"))
    pipe.tell.error("librdkafka", KeyError())
    assert anomalies(pipe.end()) == [("librdkafka", "one"), ("librdkafka", "KeyError()")]


def test_closing_is_no_error(pipe: Pipe) -> None:
    assert not pipe.relay.closing
    pipe.tell.closing()
    assert not anomalies(pipe.end())
    assert pipe.relay.closing


@pytest.mark.parametrize(
    "line", [b"", b"{", b"Traceback", b"[]", b"7", b'["unknown", 1]', b'["sending"]', b'["abort", "t"]']
)
def test_a_line_that_is_none_of_the_protocol_is_an_error(pipe: Pipe, line: bytes) -> None:
    pipe.relay.hear(line)
    assert anomalies(pipe.stage) == [("someone", f"told {line!r}")]


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([], []),
        ([5], [(5, 6)]),
        ([5, 6, 7], [(5, 8)]),
        ([5, 7], [(5, 6), (7, 8)]),
        ([5, 6, 5, 6], [(5, 7), (5, 7)]),
    ],
)
def test_runs_of_offsets(offsets: list[int], found: list[tuple[int, int]]) -> None:
    assert runs(offsets) == found
