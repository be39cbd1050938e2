"""Tables of days that are brought forward: each row of silver counts once, whatever happens between."""

import random
from datetime import date, timedelta

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import forward, silver
from pipeline.conflicts import OvertakenError
from pipeline.formats import REQUESTS, THROTTLES
from pipeline.forward import bring_forward, state_of
from pipeline.gold.clients import REQUEST_SUMS
from pipeline.maintain import compact, remove_before
from tests.pipeline.events import DAY, day_sums, request, rows_of, taken

TABLE = REQUEST_SUMS.table
SILVER = silver.TABLES[REQUESTS]
NEXT_DAY = "2025-11-22"
DAY_S = 86_400
COLUMNS = ("date", "client_id", "requests", "bytes_in", "timed", "bucket_us", "bucket_counts")


def came(warehouse, batch, *events):
    """Append a batch to silver."""
    rows = taken(warehouse.spark, REQUESTS, list(events))
    warehouse.append_once(SILVER, rows, "stream:r", batch)


def of_client(second, client="a", size=1, took=()):
    timed = sum(count for _, count in took)
    return request(second, client_id=client, bytes_in=size, timed=timed, phases={"total": list(took)})


def sums(warehouse):
    return rows_of(warehouse.read(TABLE), *COLUMNS)


def from_all(warehouse):
    """Return what all rows of silver give at once."""
    return rows_of(day_sums(warehouse.read(SILVER), REQUESTS), *COLUMNS)


def test_a_day_is_brought_forward_by_what_is_new(spark, warehouse):
    came(warehouse, 0, of_client(1, size=5, took=[[10, 2], [20, 1]]))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2, size=7, took=[[10, 1], [15, 4]]), of_client(2, "b"))
    came(warehouse, 2, of_client(3, size=1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    day = warehouse.read(TABLE).select("date").first()[0]
    assert sums(warehouse) == [
        (day, "a", 3, 13, 8, [10, 15, 20], [3, 4, 1]),
        (day, "b", 1, 1, 0, [], []),
    ]
    assert sums(warehouse) == from_all(warehouse)


def test_nothing_new_is_no_commit(spark, warehouse):
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert warehouse.newest_version(TABLE) == 0


def test_without_the_source_there_is_no_table(spark, warehouse):
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert not warehouse.exists(TABLE)


def test_rows_of_a_day_that_is_not_due_are_taken_when_it_is(spark, warehouse):
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2), of_client(DAY_S, size=9))
    bring_forward(warehouse, REQUEST_SUMS, [NEXT_DAY])
    came(warehouse, 2, of_client(DAY_S + 1, size=2))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    bring_forward(warehouse, REQUEST_SUMS, [NEXT_DAY])
    assert sums(warehouse) == from_all(warehouse)


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_events_gives_the_sums_of_all(spark, warehouse, seed):
    """Late events, days in any order, compaction and the removal of an earlier day between them."""
    dice = random.Random(seed)
    came(warehouse, 0, of_client(-3 * DAY_S))
    for batch in range(1, 7):
        events = [
            of_client(
                dice.randrange(2 * DAY_S),
                dice.choice("abc"),
                dice.randrange(100),
                [[us, dice.randrange(1, 4)] for us in sorted(dice.sample(range(1, 9), dice.randrange(4)))],
            )
            for _ in range(dice.randrange(1, 6))
        ]
        came(warehouse, batch, *events)
        days = dice.sample([DAY, NEXT_DAY], dice.randrange(3))
        bring_forward(warehouse, REQUEST_SUMS, days)
        match dice.randrange(4):
            case 0:
                compact(warehouse, SILVER)
            case 1:
                compact(warehouse, TABLE)
            case 2:
                remove_before(warehouse, SILVER, date.fromisoformat(DAY))
    came(warehouse, 7, of_client(1), of_client(DAY_S + 1), of_client(2 * DAY_S - 43_200))
    bring_forward(warehouse, REQUEST_SUMS, [DAY, NEXT_DAY])
    days = f"date IN (DATE '{DAY}', DATE '{NEXT_DAY}')"
    expected = rows_of(day_sums(warehouse.read(SILVER).where(days), REQUESTS), *COLUMNS)
    assert rows_of(warehouse.read(TABLE).where(days), *COLUMNS) == expected


@pytest.mark.parametrize("is_written", [False, True])
def test_a_process_that_dies_at_the_commit_counts_nothing_twice(spark, warehouse, monkeypatch, is_written):
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2))
    write = type(warehouse).replace_once

    def dies(*arguments):
        if is_written:
            write(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(warehouse), "replace_once", dies)
        with pytest.raises(KeyboardInterrupt):
            bring_forward(warehouse, REQUEST_SUMS, [DAY])
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert sums(warehouse) == from_all(warehouse)


def test_a_process_that_another_one_has_overtaken_begins_again(spark, warehouse, monkeypatch):
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2))
    read, states = forward.state_of, []

    def overtaken(its_warehouse, table):
        states.append(read(its_warehouse, table))
        if len(states) == 1:  # The other process does the same in this moment.
            bring_forward(warehouse, REQUEST_SUMS, [DAY])
        return states[-1] if len(states) != 2 else states[0]

    monkeypatch.setattr(forward, "state_of", overtaken)
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert sums(warehouse) == from_all(warehouse)
    with pytest.raises(OvertakenError):
        warehouse.replace_once(TABLE, warehouse.read(TABLE), f"date = DATE '{DAY}'", forward.WRITER, 2, "{}")


@pytest.mark.parametrize("is_lost", ["no commit", "too old", "too many versions", "fewer versions"])
def test_a_day_whose_state_is_lost_is_made_from_all_rows(spark, warehouse, monkeypatch, is_lost):
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2))
    match is_lost:
        case "no commit":
            monkeypatch.setattr(type(warehouse), "newest_note", lambda *_: None)
            monkeypatch.setattr(forward, "state_of", lambda *_: (1, {}))
        case "too old":
            monkeypatch.setattr(forward, "MAX_AGE", timedelta())
        case "too many versions":
            monkeypatch.setattr(forward, "MAX_VERSIONS", 0)
        case "fewer versions":
            state = {DAY: {SILVER.path: 99}}
            monkeypatch.setattr(forward, "state_of", lambda *_: (1, state))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert sums(warehouse) == from_all(warehouse)


def test_a_commit_speaks_of_the_newest_days(spark, warehouse, monkeypatch):
    monkeypatch.setattr(forward, "MAX_DAYS", 1)
    came(warehouse, 0, of_client(1), of_client(DAY_S))
    bring_forward(warehouse, REQUEST_SUMS, [DAY, NEXT_DAY])
    assert state_of(warehouse, TABLE) == (1, {NEXT_DAY: {SILVER.path: 0}})
    came(warehouse, 1, of_client(2))
    bring_forward(warehouse, REQUEST_SUMS, [DAY, NEXT_DAY])
    assert sums(warehouse) == from_all(warehouse)


def test_a_source_that_appears_later_is_read_whole(spark, warehouse):
    """Only one of two sources is there at first; the table has its rows already."""
    both = forward.Forward(
        TABLE,
        {SILVER: REQUEST_SUMS.sources[SILVER], silver.TABLES[THROTTLES]: REQUEST_SUMS.sources[SILVER]},
        REQUEST_SUMS.add_up,
    )
    came(warehouse, 0, of_client(1))
    bring_forward(warehouse, both, [DAY])
    rows = taken(spark, REQUESTS, [of_client(5, size=50)])
    warehouse.append_once(silver.TABLES[THROTTLES], rows, "stream:t", 0)
    bring_forward(warehouse, both, [DAY])
    came(warehouse, 1, of_client(2))
    bring_forward(warehouse, both, [DAY])
    assert rows_of(warehouse.read(TABLE), "requests", "bytes_in") == [(3, 52)]


def test_a_table_of_an_earlier_version_gets_its_changes_kept(spark, warehouse):
    rows = taken(spark, REQUESTS, [of_client(1)])
    rows.write.format("delta").partitionBy("date").save(warehouse.path(SILVER))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    came(warehouse, 1, of_client(2))
    bring_forward(warehouse, REQUEST_SUMS, [DAY])
    assert sums(warehouse) == from_all(warehouse)
