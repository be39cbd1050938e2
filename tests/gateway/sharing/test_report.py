"""Reports as records."""

import json
import time

import pytest

from broker.common.slices import run_through
from broker.gateway.sharing.connections import MAX_BYTES as MAX_BYTES_OF_CONNECTIONS
from broker.gateway.sharing.connections import NUMBERS
from broker.gateway.sharing.report import (
    LIMITS,
    LINES_AT_ONCE,
    MAX_AMOUNT,
    MAX_HEAD,
    MAX_PIECE,
    READ_AT_ONCE,
    LimitKey,
    Line,
    Report,
    UnreadableReport,
    read_report,
    reads_as,
    write_report,
)
from broker.gateway.sharing.task import MAX_BYTES
from broker.quotas.connections import PER_IP, USER_RATE
from broker.quotas.kinds import QuotaKind
from broker.quotas.shared_connections import ConnectionKey
from tests.support.machine_speed import PASS_S, slowness

ALICE = LimitKey(QuotaKind.PRODUCE, "alice", None)
REPORT = Report("g1-5f0c", 17, {ALICE: Line(250_000, 90_000, 333_333, 350_000)})
TEXT = (
    '{"version":1,"gateway":"g1-5f0c","number":17,"limits":[{"quota":"produce","user":"alice",'
    '"passed":250000,"waiting":90000,"share":333333,"wanted":350000}]}'
)


def test_a_report_is_the_documented_json():
    assert run_through(write_report(REPORT)) == TEXT.encode()
    assert run_through(read_report(TEXT.encode())) == REPORT


@pytest.mark.parametrize(
    "key",
    [
        LimitKey(QuotaKind.FETCH, None, "app"),
        LimitKey(QuotaKind.CONTROLLER_MUTATION, "älice", ""),
        LimitKey(QuotaKind.PRODUCE, '"', "\n"),
    ],
)
def test_every_name_is_read_as_it_was_written(key):
    report = Report("g", 1, {key: Line(0, 0, 1, 0)})
    assert run_through(read_report(run_through(write_report(report)))) == report


def test_a_farewell_is_read_as_it_was_written():
    assert run_through(read_report(run_through(write_report(Report("g", 3, leaving=True))))) == Report(
        "g", 3, {}, leaving=True
    )


@pytest.mark.parametrize(
    ("keys", "is_certain"),
    [
        ((ALICE, LimitKey(QuotaKind.FETCH, None, "äpp"), ConnectionKey(PER_IP, "10.0.0.1")), True),
        ((LimitKey(QuotaKind.FETCH, "half \ud83d", None),), False),
        ((ConnectionKey(PER_IP, "half \ud83d"),), False),
        ((), True),
    ],
)
def test_a_gateway_need_not_read_its_own_report(keys, is_certain):
    """A name that is not valid Unicode is read as another one, by all gateways."""
    lines = {key: Line(1, 2, 3, 4) for key in keys}
    report = Report("g", 1, lines, has_connections=True)
    data = run_through(write_report(report))
    assert reads_as(report, data) is is_certain
    assert (run_through(read_report(data)) == report) is is_certain


def test_a_report_of_which_pieces_may_be_too_large_is_read():
    name = "x" * (MAX_PIECE // 2)
    for count, is_certain in ((1, True), (2, False)):
        report = Report(
            "g", 1, {LimitKey(QuotaKind.FETCH, name, str(each)): Line(0, 0, 1, 0) for each in range(count)}
        )
        assert reads_as(report, run_through(write_report(report))) is is_certain


def test_fields_that_a_later_version_adds_are_ignored():
    found = json.loads(TEXT)
    found["more"] = found["limits"][0]["more"] = 1
    assert run_through(read_report(json.dumps(found).encode())) == REPORT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"1",
        b"[" * 100_000,
        TEXT.replace('"version":1', '"version":2').encode(),
        TEXT.replace('"produce"', '"produces"').encode(),
        TEXT.replace('"alice"', "7").encode(),
        TEXT.replace('"g1-5f0c"', '""').encode(),
        TEXT.replace('"number":17', '"number":-1').encode(),
        TEXT.replace('"passed":250000', '"passed":true').encode(),
        TEXT.replace('"passed":250000', '"passed":0.5').encode(),
        TEXT.replace('"share":333333,', "").encode(),
        TEXT.replace("[{", "{").replace("}]", "}").encode(),
        TEXT.replace('"limits"', '"leaving":1,"limits"').encode(),
        TEXT.replace('"share":333333', f'"share":{MAX_AMOUNT + 1}').encode(),
        TEXT.replace('"share":333333', f'"share":1{"0" * 400}').encode(),
        TEXT.replace('"limits"', '"lines"').encode(),
        TEXT.replace('"version":1', f'"version":"{"x" * 100_000}"').encode(),
    ],
)
def test_invalid_reports_are_refused(data):
    with pytest.raises(UnreadableReport):
        run_through(read_report(data))


@pytest.mark.parametrize(
    ("count", "pauses"),
    [(0, (0, 0)), (LINES_AT_ONCE - 1, (0, 1)), (LINES_AT_ONCE, (1, 1)), (LINES_AT_ONCE + 1, (1, 2))],
)
def test_many_limits_are_written_and_read_in_steps(count, pauses):
    """8,000 limits were written at once in 35 ms, and read in 46."""
    lines = {LimitKey(QuotaKind.PRODUCE, f"u{at}", None): Line(at, 1, 2, 3) for at in range(count)}
    report = Report("g", 1, lines)
    data = run_through(write_report(report))
    assert run_through(read_report(data)) == report
    assert (len(list(write_report(report))), len(list(read_report(data)))) == pauses


IP, USER = ConnectionKey(PER_IP, "10.0.0.7"), ConnectionKey(USER_RATE, "älice")
OF_CONNECTIONS = Report(
    "g1-5f0c", 17, {IP: Line(1, 2, 3, 4, 12), USER: Line(5, 6, 7, 8)}, has_connections=True
)
CONNECTIONS_TEXT = (
    '{"version":1,"gateway":"g1-5f0c","number":17,"connections":{"max.connections.per.ip":'
    '[["10.0.0.7",1,2,3,4,12]],"max.connection.creation.rate.per.user":[["älice",5,6,7,8,0]]},"limits":[]}'
)


def test_limits_on_connections_are_the_documented_json():
    assert run_through(write_report(OF_CONNECTIONS)).decode() == CONNECTIONS_TEXT
    assert run_through(read_report(CONNECTIONS_TEXT.encode())) == OF_CONNECTIONS


def test_a_gateway_without_them_differs_from_one_of_an_earlier_version():
    sharing, earlier = Report("g", 1, has_connections=True), Report("g", 1)
    assert run_through(read_report(run_through(write_report(sharing)))) == sharing
    assert run_through(read_report(run_through(write_report(earlier)))) == earlier


def test_limits_of_a_later_version_are_skipped():
    text = CONNECTIONS_TEXT.replace("max.connections.per.ip", "max.connections.per.planet")
    assert run_through(read_report(text.encode())).lines == {USER: Line(5, 6, 7, 8)}


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [
        ('["10.0.0.7",1,', "[7,1,"),
        (",1,2,3,4,12]", ",1,2,3]"),
        (",1,2,3,4,12]", ",1,2,3,-4,12]"),
        (",1,2,3,4,12]", f",1,2,3,{MAX_AMOUNT + 1},12]"),
        (",1,2,3,4,12]", ",1,2,3,0.5,12]"),
        (",1,2,3,4,12]", ",1,2,3,4,-1]"),
        (",1,2,3,4,12]", f",1,2,3,4,{2**31 - 1}]"),
        ('"connections":{', '"connections":null,"more":{'),
    ],
)
def test_invalid_limits_on_connections_are_refused(valid, invalid):
    with pytest.raises(UnreadableReport):
        run_through(read_report(CONNECTIONS_TEXT.replace(valid, invalid).encode()))


def test_a_gateway_of_an_earlier_version_finds_the_limits_behind_the_largest_connections():
    """It skips what it does not know within the first MAX_HEAD bytes."""
    names = [f"{at:04}" + "x" * 90 for at in range(MAX_BYTES_OF_CONNECTIONS // (NUMBERS + 96))]
    numbers = Line(*[MAX_AMOUNT] * 4, 2**31 - 2)
    lines = {ConnectionKey(USER_RATE, name): numbers for name in names} | REPORT.lines
    data = run_through(write_report(Report("g", 1, lines, has_connections=True)))
    assert READ_AT_ONCE < len(data) < MAX_HEAD
    assert data.find(LIMITS, 0, MAX_HEAD) > 0
    assert run_through(read_report(data)).lines == lines


def test_the_largest_amount_is_read():
    text = TEXT.replace('"share":333333', f'"share":{MAX_AMOUNT}')
    assert MAX_AMOUNT in {line.share for line in run_through(read_report(text.encode())).lines.values()}


SPLITTING = '},{"quota":"produce","user":"'
"""A name that looks like the end of one limit and the beginning of another."""


@pytest.mark.parametrize("user", ["alice", SPLITTING, "\0" * 100, "[{" * 50, "x" * 32_767])
def test_a_large_report_is_read_as_it_was_written(user):
    lines = {
        LimitKey(QuotaKind.PRODUCE, f"{user}{number}", user): Line(number, 0, 1, 2) for number in range(300)
    }
    report = Report("g", 9, lines)
    written = run_through(write_report(report))
    assert len(written) > READ_AT_ONCE and run_through(read_report(written)) == report


def test_two_of_the_longest_names_in_one_limit_are_read():
    name = "\0" * 32_767
    report = Report("g", 9, {LimitKey(QuotaKind.PRODUCE, name, name): Line(1, 0, 1, 2)})
    assert run_through(read_report(run_through(write_report(report)))) == report


@pytest.mark.parametrize(("more", "is_read"), [(-1, True), (0, True), (1, False)])
def test_limits_that_are_not_divided_have_a_maximum(more, is_read):
    head, limit = TEXT[: TEXT.index("[") + 1], TEXT[TEXT.index("[") + 1 : -2]
    data = f"{head}{limit.ljust(MAX_PIECE + more)}]}}".encode()
    if is_read:
        assert run_through(read_report(data)) == REPORT
    else:
        with pytest.raises(UnreadableReport, match="not divided"):
            run_through(read_report(data))


@pytest.mark.parametrize(
    "data", [b"[" * 20_000, b"{}".rjust(20_000), TEXT.encode()[:-1] + b" " * 20_000 + b"x"]
)
def test_a_large_record_that_is_no_report_is_refused(data):
    with pytest.raises(UnreadableReport):
        run_through(read_report(data))


@pytest.mark.timed
@pytest.mark.parametrize("element", ["0", "[]", "{}", '{"quota":0}', TEXT[TEXT.index("[") + 1 : -2]])
def test_no_report_holds_the_thread(element):
    head = TEXT[: TEXT.index("[") + 1]
    count = (MAX_BYTES - len(head) - 2) // (len(element) + 1)
    data = f"{head}{','.join([element] * count)}]}}".encode()
    best_s = min(longest_step(data) for _ in range(10))
    assert best_s < PASS_S or best_s < PASS_S * slowness()


def longest_step(data):
    """Seconds of the thread."""
    steps, longest_s, ended = read_report(data), 0.0, False
    while not ended:
        began = time.thread_time()
        try:
            next(steps)
        except (StopIteration, UnreadableReport):
            ended = True
        longest_s = max(longest_s, time.thread_time() - began)
    return longest_s
