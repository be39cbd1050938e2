"""From records to tables: repeated, late, and interrupted batches."""

import shutil
import stat

import pytest

from pipeline import silver, sources
from pipeline.failures import Version
from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, TELEMETRY, THROTTLES
from pipeline.gold import advice, client_metrics, usage
from pipeline.gold.connections import STORMS
from pipeline.loss import LOST
from pipeline.maintain import ALL, maintain, quarantined
from pipeline.otlp.points import CUMULATIVE
from pipeline.run import (
    BY_MINUTE,
    INTERPRETED,
    MAX_INTERPRETED,
    MAX_OF_ONE_TASK,
    ONE_TASK,
    RECORDS_OF_A_PUSH,
    TOPICS,
    UNCOMPILED,
    UNKNOWN,
    Pipeline,
    was_added_up_to,
)
from pipeline.run import LOSS as STEP_OF_LOSS
from pipeline.tables import NO_SETTINGS, Warehouse
from pipeline.together import Together
from tests.pipeline.events import (
    NOON_MS,
    connection,
    quota_change,
    raw,
    record,
    request,
    rows_of,
    snapshot,
    throttle,
)
from tests.pipeline.everything import contents, some_of_everything
from tests.pipeline.pushes import counter, number, payload, push
from tests.pipeline.test_days import due_days


def test_some_of_everything_makes_every_table(taken):
    assert set(taken.tables) == {table.path for table in ALL} - {LOST.path}
    assert all(taken.tables.values())
    assert len(taken.tables[sources.EVENTS.path]) == len(some_of_everything())


def test_tables_are_for_their_owner_and_group_only(taken):
    """The caller creates the warehouse itself."""
    open_to_others = {
        (oct(stat.S_IMODE(each.stat().st_mode)), each.suffix)
        for each in taken.root.rglob("*")
        if each.stat().st_mode & 0o027
    }
    assert open_to_others == set()
    assert len({each.suffix for each in taken.root.rglob("*") if each.is_file()}) > 2


def test_quarantined_events_are_counted_by_topic_and_reason(spark, taken):
    assert list(quarantined(Warehouse(spark, str(taken.root)))) == [
        ("__weir_client_telemetry", "Value is not a number", 1),
        ("__weir_client_telemetry", "not OTLP metrics", 1),
        ("__weir_requests", "not JSON of this format", 1),
        ("__weir_requests", "unknown version", 1),
        ("__weir_tomorrow", "unknown topic", 1),
    ]


def test_a_batch_that_is_repeated_changes_nothing(spark, taken, tmp_path):
    shutil.copytree(taken.root, tmp_path, dirs_exist_ok=True)
    stream = Pipeline(Warehouse(spark, str(tmp_path)), advice.Policy(least_minutes=2))
    stream.take(raw(spark, some_of_everything()), 0)
    stream.make_days()
    assert contents(tmp_path) == taken.tables


class _Noted(Together):
    """Notes the settings of the steps, and runs none."""

    def run(self, _tag, _steps, settings=None, _at_once=None):
        self.interpreted = {name for name, each in settings.items() if each == INTERPRETED}
        self.of_one_task = {name for name, each in settings.items() if each == ONE_TASK}


@pytest.mark.parametrize(
    ("requests", "pushes", "interpreted"),
    [
        (49, 1, {REQUESTS, TELEMETRY, STEP_OF_LOSS}),
        # Of all records there is one too many.
        (50, 1, {REQUESTS, TELEMETRY}),
        (51, 2, set()),
    ],
)
def test_steps_of_few_rows_are_interpreted(warehouse, requests, pushes, interpreted):
    """A push counts as many records, as it has many points."""
    pipeline = Pipeline(warehouse, max_interpreted=RECORDS_OF_A_PUSH)
    pipeline._together = noted = _Noted(warehouse)
    counts = dict.fromkeys((*TOPICS, UNKNOWN), 0) | {REQUESTS: requests, TELEMETRY: pushes}
    pipeline._process(counts, Version("test", 0, 0))
    assert RECORDS_OF_A_PUSH == 50 and noted.interpreted == interpreted


@pytest.mark.parametrize(
    ("requests", "of_one_task"),
    [
        (MAX_INTERPRETED, set()),
        (MAX_INTERPRETED + 1, {REQUESTS, STEP_OF_LOSS}),
        (MAX_OF_ONE_TASK, {REQUESTS, STEP_OF_LOSS}),
        (MAX_OF_ONE_TASK + 1, set()),
    ],
)
def test_steps_of_more_rows_are_compiled_and_of_many_run_in_several_tasks(warehouse, requests, of_one_task):
    pipeline = Pipeline(warehouse)
    pipeline._together = noted = _Noted(warehouse)
    counts = dict.fromkeys((*TOPICS, UNKNOWN), 0) | {REQUESTS: requests}
    pipeline._process(counts, Version("test", 0, 0))
    assert noted.of_one_task == of_one_task
    assert noted.interpreted == ({REQUESTS, STEP_OF_LOSS} if requests <= MAX_INTERPRETED else set())


@pytest.mark.parametrize(
    ("requests", "settings"),
    [(MAX_INTERPRETED, UNCOMPILED), (MAX_INTERPRETED + 1, NO_SETTINGS), (MAX_OF_ONE_TASK, NO_SETTINGS)],
)
def test_on_a_cluster_no_step_is_one_task(warehouse, requests, settings):
    """The settings of one machine are not for it; to compile the plans of few records is slow there too."""
    pipeline = Pipeline(warehouse)
    assert pipeline._settings_for(requests) in (INTERPRETED, ONE_TASK)
    pipeline._is_local = False
    assert pipeline._settings_for(requests) == settings


class _Watched(Together):
    """Notes the settings of usage, and how many tables of gold are made at once."""

    def run(self, tag, steps, settings=None, at_once=None):
        if usage.USAGE.path in steps:
            self.usage = settings[usage.USAGE.path], at_once
        super().run(tag, steps, settings, at_once)


def test_gold_of_a_busy_minute_is_compiled_also_for_a_small_batch(spark, warehouse):
    """Small ones are made in order: usage, for which people wait, is the first."""
    assert next(each.table for each in BY_MINUTE if each.source == REQUESTS) is usage.USAGE
    pipeline = Pipeline(warehouse, max_interpreted=3)
    pipeline._together = watched = _Watched(warehouse)
    seconds, reported = [(1, 2, 3, 4), (5,), (65,), (66, 67), (68,)], []
    for batch, each in enumerate(seconds):
        rows = [record(REQUESTS, 10 * batch + at, request(at, bytes_in=1)) for at in each]
        pipeline.take(raw(spark, rows), batch)
        reported.append(watched.usage)
    compiled, interpreted = (ONE_TASK, None), (INTERPRETED, 1)
    assert reported == [compiled, compiled, interpreted, interpreted, compiled]
    assert rows_of(warehouse.read(usage.USAGE), "minute", "produce_bytes") == [("12:00", 5), ("12:01", 4)]


def test_a_late_event_changes_the_minute_to_which_it_belongs_and_no_other(spark, warehouse):
    pipeline = Pipeline(warehouse)
    first = [request(1, bytes_in=1), request(61, bytes_in=10), request(121, bytes_in=100)]
    pipeline.take(raw(spark, [record(REQUESTS, at, each) for at, each in enumerate(first)]), 0)
    pipeline.take(raw(spark, [record(REQUESTS, 3, request(62, bytes_in=5), NOON_MS + 3_600_000)]), 1)
    found = rows_of(warehouse.read(usage.USAGE), "minute", "produce_bytes")
    assert found == [("12:00", 1), ("12:01", 15), ("12:02", 100)]


def test_of_two_late_events_no_minute_between_them_is_recomputed(spark, warehouse):
    pipeline = Pipeline(warehouse)
    first = [request(1, bytes_in=1), request(61, bytes_in=10), request(121, bytes_in=100)]
    pipeline.take(raw(spark, [record(REQUESTS, at, each) for at, each in enumerate(first)]), 0)
    # Without this minute in gold a test sees whether it is made again.
    warehouse.delete(usage.USAGE, "minute = TIMESTAMP '2025-11-21 12:01:00'")
    late = [request(2, bytes_in=5), request(122, bytes_in=5)]
    rows = [record(REQUESTS, 3 + at, each, NOON_MS + 3_600_000) for at, each in enumerate(late)]
    pipeline.take(raw(spark, rows), 1)
    found = rows_of(warehouse.read(usage.USAGE), "minute", "produce_bytes")
    assert found == [("12:00", 6), ("12:02", 105)]


def test_an_error_of_one_topic_ends_the_batch_with_it(spark, warehouse):
    dying = _Dying(spark, warehouse.root, dies_at=usage.USAGE)
    rows = [record(REQUESTS, 0, request(1)), record(THROTTLES, 0, throttle(1))]
    with pytest.raises(_Death):
        Pipeline(dying).take(raw(spark, rows), 0)
    Pipeline(warehouse).take(raw(spark, rows), 0)
    assert [warehouse.read(silver.TABLES[topic]).count() for topic in (REQUESTS, THROTTLES)] == [1, 1]


def test_minutes_without_a_storm_are_written_only_to_end_one(spark, warehouse):
    def take(batch, second, count):
        pipeline.take(raw(spark, [record(CONNECTIONS, batch, connection(second, count=count))]), batch)
        return warehouse.newest_version(STORMS), warehouse.read(STORMS).count()

    pipeline = Pipeline(warehouse)
    assert [take(0, 1, 59), take(1, 61, 59), take(2, 62, 1), take(3, 121, 1)] == [
        (0, 0),
        (0, 0),
        (1, 1),
        (1, 1),
    ]
    # As after a change of silver: the minute of the storm is made again, and has none.
    warehouse.delete(silver.TABLES[CONNECTIONS], "offset = 2")
    assert take(4, 63, 0) == (2, 0)


def test_a_late_total_changes_its_minute_and_that_of_the_next_one(spark, warehouse):
    def output(offset, second, value, name="c"):
        metric = counter(name, number(second, value, start=0), temporality=CUMULATIVE)
        return push(offset, payload(metric), second)

    def found():
        return rows_of(warehouse.read(client_metrics.TABLE), "metric", "minute", "increase")

    pipeline = Pipeline(warehouse)
    pipeline.take(raw(spark, [output(0, 1, 10), output(1, 301, 40), output(2, 301, 7, "other")]), 0)
    assert found() == [("c", "12:00", 10.0), ("c", "12:05", 30.0), ("other", "12:05", 7.0)]
    pipeline.take(raw(spark, [output(3, 121, 15)]), 1)
    assert found() == [
        *(("c", "12:00", 10.0), ("c", "12:02", 5.0), ("c", "12:05", 25.0)),
        ("other", "12:05", 7.0),
    ]


def test_a_batch_that_died_on_its_way_is_finished_by_its_repetition(spark, warehouse):
    records = [record(REQUESTS, at, request(at + 1, bytes_in=1)) for at in range(3)]
    with pytest.raises(_Death):
        Pipeline(_Dying(spark, warehouse.root, dies_at=usage.USAGE)).take(raw(spark, records), 0)
    Pipeline(warehouse).take(raw(spark, records), 0)
    assert [warehouse.read(table).count() for table in (sources.EVENTS, silver.TABLES[REQUESTS])] == [3, 3]
    assert rows_of(warehouse.read(usage.USAGE), "produce_bytes", "requests") == [(3, 3)]


def test_days_that_a_process_still_owed_when_it_died_are_made_by_the_next(spark, warehouse):
    """Only these: there are no events on the days between."""
    week = 7 * 86_400
    rows = [record(REQUESTS, at, request(at * week, bytes_in=1), NOON_MS + at * week * 1000) for at in (0, 1)]
    Pipeline(warehouse).take(raw(spark, rows), 0)
    assert due_days(warehouse) == ["2025-11-21", "2025-11-28"]
    assert not warehouse.exists(usage.OFFENDERS)
    Pipeline(warehouse).make_days()
    assert warehouse.read(usage.OFFENDERS).count() > 0
    assert due_days(warehouse) == []


def test_added_events_come_once_and_their_version_is_noted(spark, warehouse):
    one, two = (raw(spark, [record(THROTTLES, at, throttle(1)) for at in range(most)]) for most in (1, 2))
    pipeline = Pipeline(warehouse)
    pipeline.take(one, 0)
    assert was_added_up_to(warehouse) is None and pipeline.rows == 1
    for _ in range(2):
        pipeline.add(two)
        assert was_added_up_to(warehouse) == warehouse.newest_version(sources.EVENTS)
        assert pipeline.rows == 2
    assert [warehouse.read(table).count() for table in (sources.EVENTS, silver.TABLES[THROTTLES])] == [2, 2]


def test_an_addition_that_died_on_its_way_is_taken_further_by_the_next(spark, warehouse):
    records = [record(REQUESTS, at, request(at + 1, bytes_in=1)) for at in range(3)]
    with pytest.raises(_Death):
        Pipeline(_Dying(spark, warehouse.root, dies_at=usage.USAGE)).add(raw(spark, records[:2]))
    assert was_added_up_to(warehouse) == -1 and not warehouse.exists(usage.USAGE)
    Pipeline(warehouse).add(raw(spark, records))
    assert [warehouse.read(table).count() for table in (sources.EVENTS, silver.TABLES[REQUESTS])] == [3, 3]
    assert rows_of(warehouse.read(usage.USAGE), "produce_bytes", "requests") == [(3, 3)]


def test_an_addition_that_died_is_taken_further_before_days_are_made(spark, warehouse):
    one = raw(spark, [record(REQUESTS, 0, request(1, bytes_in=1))])
    with pytest.raises(_Death):
        Pipeline(_Dying(spark, warehouse.root, dies_at=usage.USAGE)).add(one)
    Pipeline(warehouse).make_days()
    assert was_added_up_to(warehouse) == 0
    assert rows_of(warehouse.read(usage.OFFENDERS), "by", "total") == [
        ("produce_bytes", 1),
        ("requests", 1),
    ]


def test_compacted_files_are_not_added_again(spark, warehouse):
    pipeline = Pipeline(warehouse)
    for at in range(2):
        pipeline.add(raw(spark, [record(THROTTLES, at, throttle(1))]))
    assert next(maintain(warehouse)) == (sources.EVENTS, 2, 1)
    pipeline.add(raw(spark, [record(THROTTLES, 2, throttle(1))]))
    assert pipeline.rows == 3
    assert [warehouse.read(table).count() for table in (sources.EVENTS, silver.TABLES[THROTTLES])] == [3, 3]


def test_of_a_file_that_has_a_record_twice_it_is_taken_once(spark, tmp_path):
    one, other = (record(REQUESTS, at, request(1)) for at in range(2))
    path = str(tmp_path / "export")
    raw(spark, [one, other, one]).write.parquet(path)
    assert sorted(row["offset"] for row in sources.files(spark, path).collect()) == [0, 1]


def test_maintenance_puts_files_together_and_keeps_every_row(spark, warehouse):
    for batch in range(2):
        rows = sources.dated(raw(spark, [record(THROTTLES, batch, throttle(1))]))
        warehouse.append_once(sources.EVENTS, rows, "test", batch)
    before = contents(warehouse.root)
    assert list(maintain(warehouse)) == [(sources.EVENTS, 2, 1)]
    assert contents(warehouse.root) == before


class _Death(Exception):
    """Simulates a kill."""


class _Dying(Warehouse):
    """Fails when it should write one table."""

    def __init__(self, spark, root, dies_at):
        super().__init__(spark, root)
        self.dies_at = dies_at

    def beside(self, settings=NO_SETTINGS):
        spark = Warehouse(self.spark, self.root).beside(settings).spark
        return _Dying(spark, self.root, self.dies_at)

    def replace(self, table, rows, where):
        if table == self.dies_at:
            raise _Death
        super().replace(table, rows, where)

    def append_once(self, table, rows, writer, batch):
        if table == self.dies_at:
            raise _Death
        return super().append_once(table, rows, writer, batch)


def test_snapshots_are_written_if_there_are_parts(spark, warehouse):
    pipeline = Pipeline(warehouse)
    change = quota_change(0, 1, entity={"user": "alice"}, new=1.0)
    parts = snapshot(1, 1, "s", ({"user": "alice"}, {"producer_byte_rate": 1.0}, False))

    def take(batch, *events):
        rows = [record(QUOTA_CHANGES, 10 * batch + at, each) for at, each in enumerate(events)]
        pipeline.take(raw(spark, rows), batch)
        return [warehouse.newest_version(table) for table in (silver.TABLES[QUOTA_CHANGES], silver.SNAPSHOTS)]

    assert take(0, change) == [0, -1]
    # A repetition writes nothing.
    assert take(0, change) == [0, -1]
    assert take(1, change, *parts) == [1, 0]
    assert warehouse.read(silver.SNAPSHOTS).count() == len(parts)
    assert take(2, change) == [2, 0]
    assert take(3, *parts) == [3, 1]


def test_a_batch_that_died_before_its_snapshots_writes_them_when_repeated(spark, warehouse):
    parts = snapshot(1, 1, "s", ({"user": "alice"}, {"producer_byte_rate": 1.0}, False))
    rows = [record(QUOTA_CHANGES, at, each) for at, each in enumerate(parts)]
    with pytest.raises(_Death):
        Pipeline(_Dying(spark, warehouse.root, dies_at=silver.SNAPSHOTS)).take(raw(spark, rows), 0)
    assert warehouse.exists(silver.TABLES[QUOTA_CHANGES]) and not warehouse.exists(silver.SNAPSHOTS)
    Pipeline(warehouse).take(raw(spark, rows), 0)
    assert warehouse.read(silver.SNAPSHOTS).count() == len(parts)
