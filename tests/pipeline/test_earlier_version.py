"""A warehouse that an earlier version wrote is read, and written on, without a step of migration.

warehouses/2026-11.tar.xz has the tables that the version of November 2026 made of `some_of_everything` by
`Pipeline.add` and `make_days`. Another such file is due when a release changes the columns of a table.
"""

import json
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import functions as F

from pipeline.formats import REQUESTS, TELEMETRY
from pipeline.gold import advice, client_metrics, latency
from pipeline.gold.advice import Policy
from pipeline.histograms import PAIRS_BEFORE, with_buckets
from pipeline.maintain import ALL, cluster, table_descriptions
from pipeline.opening import check_tables
from pipeline.otlp.points import CUMULATIVE
from pipeline.run import Pipeline
from pipeline.silver import TABLES
from pipeline.tables import Warehouse
from tests.pipeline.events import NOON_MS, raw, record, request_before, rows_of
from tests.pipeline.everything import contents, some_of_everything
from tests.pipeline.pushes import counter, gauge, number, payload, push
from webui.insights.worker import Warehouse as Insights
from webui.insights.worker import look

HERE = Path(__file__).parent
QUANTILES = ("minute", "node", "api", "phase", "timed", "p50_us", "p95_us", "p99_us", "max_us")


@pytest.fixture(params=["2026-11"])
def earlier(spark, tmp_path, request):
    with tarfile.open(HERE / f"warehouses/{request.param}.tar.xz") as file:
        file.extractall(tmp_path / "earlier", filter="data")
    return Warehouse(spark, str(tmp_path / "earlier"))


def spaced(row):
    """Return a record as it was when the earlier tables were made: its JSON had spaces."""
    *place, value, headers = row
    with suppress(ValueError, TypeError):  # Some are no JSON, and some have no value.
        value = json.dumps(json.loads(value)).encode()
    return *place, value, headers


def later():
    """Return what the earlier version had, and a request and a push of a later minute and a cluster."""
    rows = [spaced(row) for row in some_of_everything()]
    requests, pushes = (1 + max(row[2] for row in rows if row[0] == topic) for topic in (REQUESTS, TELEMETRY))
    event = request_before(600, client_id="new", bytes_in=7)
    packed = payload(gauge("g", number(600, 2.0)), counter("c", number(600, 11), temporality=CUMULATIVE))
    return [
        *rows,
        record(REQUESTS, requests, event, NOON_MS + 600_000),
        push(pushes, packed, 600, cluster="x"),
    ]


def with_unknown_version(tables):
    """Return contents in which the record of an unknown version has the number that it has now. It was 3."""
    return {path: sorted(row.replace('"v": 3,', '"v": 99,') for row in rows) for path, rows in tables.items()}


def rows_by_table(warehouse):
    return {each.table.path: each.rows for each in table_descriptions(warehouse)}


def test_its_tables_are_known_and_read(earlier):
    check_tables(earlier, is_written=True)
    known = {table.path for table in ALL}
    assert set(contents(earlier.root)) <= known
    before = rows_by_table(earlier)
    assert all(before.values()) and before["silver/requests"] == 89
    states = {row["name"]: row["state"] for row in json.loads(look(Insights(earlier.root), {})[1])}
    there = {path.removeprefix("gold/") for path in before if path.startswith("gold/")}
    assert {name for name, state in states.items() if state == "there"} >= there
    assert not {"foreign", "damaged"} & set(states.values())


def test_it_is_written_on_as_if_this_version_had_begun_it(earlier, spark, tmp_path):
    policy = Policy(least_minutes=2)
    for warehouse in (earlier, fresh := Warehouse(spark, str(tmp_path / "fresh"))):
        pipeline = Pipeline(warehouse, policy)
        pipeline.add(raw(spark, later()))
        pipeline.make_days()
    # Their columns differ from those of a new table: they keep the earlier ones.
    apart = dict.fromkeys((TABLES[REQUESTS].path, latency.TABLE.path, advice.TABLE.path))
    assert {**with_unknown_version(contents(earlier.root)), **apart} == {**contents(fresh.root), **apart}
    minutes, of_fresh = (rows_of(of.read(latency.TABLE), *QUANTILES) for of in (earlier, fresh))
    assert minutes == of_fresh
    assert latency.EDGES in earlier.read(latency.TABLE).columns
    advised, of_fresh = (of.read(advice.TABLE) for of in (earlier, fresh))
    assert rows_of(advised, *of_fresh.columns) == rows_of(of_fresh, *of_fresh.columns)
    assert advised.count() == 2 and advised.where("throttled_minutes IS NOT NULL").isEmpty()
    requests, of_fresh = (of.read(TABLES[REQUESTS]) for of in (earlier, fresh))
    assert requests.where(F.col(PAIRS_BEFORE).isNotNull()).count() == 89
    written = with_buckets(requests).select(*of_fresh.columns)
    assert sorted(map(str, written.collect())) == sorted(map(str, of_fresh.collect()))
    assert requests.count() == 90
    pushed = rows_of(earlier.read(client_metrics.TABLE).where("metric = 'g'"), "cluster", "last")
    assert pushed == [("x", 2.0), (None, 1.0)]
    table = TABLES[REQUESTS]
    cluster(earlier, table, None, earlier.read(table).first()["date"])
    assert earlier.read(table).where("client_id = 'new'").count() == 1
