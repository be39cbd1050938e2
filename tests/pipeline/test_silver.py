"""Valid events, and the reasons for quarantined ones."""

import json

import pytest

from pipeline import silver
from pipeline.formats import CONNECTIONS, MAX_BUCKET, MAX_COUNT, PHASES, REQUESTS, THROTTLES, TRANSACTIONS
from tests.pipeline.events import (
    NOON_MS,
    event,
    raw,
    record,
    request,
    request_before,
    rows_of,
    taken,
    throttle,
)

HOUR_MS = 3_600_000


def reasons(spark, topic, values):
    """Return the reason by value; None for a valid one."""
    rows = [record(topic, offset, value) for offset, value in enumerate(values)]
    found = silver.parse_events(raw(spark, rows), topic).select("offset", "reason").collect()
    return [row["reason"] for row in sorted(found)]


def _around(name, good, value, reason=None):
    """Return cases just below, at and above the maximum of a count."""
    reasons_of = (None, None, reason or f"{name} is not a count")
    counts = (MAX_COUNT - 1, MAX_COUNT, MAX_COUNT + 1)
    return [(good | {name: value(count)}, why) for count, why in zip(counts, reasons_of, strict=True)]


def test_an_invalid_event_is_reported_with_its_reason(spark):
    good = request(0)
    cases = [
        (good, None),
        (good | {"a_field_of_tomorrow": {"x": [1]}}, None),
        (None, "no value"),
        (b"", "not JSON of this format"),
        (b"not json", "not JSON of this format"),
        (b"[1]", "not JSON of this format"),
        (b"\xff\xfe\x00", "not JSON of this format"),
        (json.dumps(good)[:-9].encode(), "not JSON of this format"),
        (good | {"requests": "many"}, "not JSON of this format"),
        (good | {"requests": 2**63}, "not JSON of this format"),
        (good | {"v": 4}, "unknown version"),
        ({"time_ms": NOON_MS, "requests": 1}, "unknown version"),
        ({"v": 1, "requests": 1}, "no time"),
        (good | {"time_ms": NOON_MS + HOUR_MS}, None),
        (good | {"time_ms": NOON_MS + HOUR_MS + 1}, "from the future"),
        (good | {"time_ms": NOON_MS - 24 * HOUR_MS}, None),
        (good | {"time_ms": NOON_MS - 24 * HOUR_MS - 1}, "too late"),
        (good | {"requests": 0}, None),
        (good | {"requests": -1}, "requests is not a count"),
        *_around("requests", good, lambda count: count),
        *_around("bytes_out", good, lambda count: count),
        (good | {"bytes_in": -1}, "bytes_in is not a count"),
        *_around("timed", good, lambda count: count),
        *_around("errors", good, lambda count: {"3": 1, "5": count}, "errors are not counts"),
        (good | {"errors": {"3": -1, "5": 1}}, "errors are not counts"),
        (event(0), "requests is not a count"),
    ]
    found = reasons(spark, REQUESTS, [value for value, _ in cases])
    assert list(zip([value for value, _ in cases], found, strict=True)) == cases


def test_an_invalid_histogram_is_reported_with_its_reason(spark):
    good = request(0)
    lengths, buckets, counts = (
        "not a count for each bucket",
        "buckets are not those of phases",
        "phases are not counts",
    )
    pairs = [
        (None, None, None),
        ([], [], None),
        ([0], [0], None),
        ([795, 791], [2, 1], None),
        ([795, 795], [2, 1], None),
        ([], [1], lengths),
        ([795], [], lengths),
        ([795], [2, 1], lengths),
        ([795, 791], [1], lengths),
        (None, [], lengths),
        ([], None, lengths),
        ([-1], [1], buckets),
        ([None], [1], buckets),
        ([None, 795], [1, 1], buckets),
        ([MAX_BUCKET - 1, MAX_BUCKET], [1, 1], None),
        ([795, MAX_BUCKET + 1], [1, 1], buckets),
        ([2**63 - 1], [1], buckets),
        ([795], [-1], counts),
        ([795], [None], counts),
        ([795, 791], [None, 1], counts),
        ([795, 791], [1, MAX_COUNT - 1], None),
        ([795, 791], [1, MAX_COUNT], None),
        ([795, 791], [1, MAX_COUNT + 1], counts),
        ([795, 791], [MAX_COUNT + 1, 1], counts),
        ([2**63], [1], "not JSON of this format"),
        ([1.5], [1], "not JSON of this format"),
        (["795"], [1], "not JSON of this format"),
        ("795", [1], "not JSON of this format"),
        ([[795, 1]], [1], "not JSON of this format"),
        ({"local": [1]}, [1], "not JSON of this format"),
    ]
    cases = [(good | {"buckets": of, "counts": each}, reason) for of, each, reason in pairs]
    cases += _around("local_us", good, lambda count: count)
    cases.append((good | {"local_us": -1}, "local_us is not a count"))
    found = reasons(spark, REQUESTS, [value for value, _ in cases])
    assert list(zip([value for value, _ in cases], found, strict=True)) == cases


def test_an_invalid_histogram_of_an_earlier_version_is_reported_with_its_reason(spark):
    good = request_before(0)
    cases = [(good, None), (good | {"v": 2}, None), (good | {"buckets": [1], "counts": []}, None)]
    for phase in PHASES:
        cases += _around(
            "phases",
            good,
            lambda count, phase=phase: {"local": [[1, 1]], phase: [[1, count], [2, 1]]},
            "phases are not counts",
        )
        cases += [
            (good | {"phases": {phase: [[1, -1], [2, 1]]}}, "phases are not counts"),
            (good | {"phases": {phase: [[-1, 1], [2, 1]]}}, "buckets are not those of phases"),
            (good | {"phases": {phase: [[2**41 + 1, 1]]}}, "buckets are not those of phases"),
            (good | {"phases": {phase: [[2**63 - 1, 1]]}}, "buckets are not those of phases"),
            (good | {"phases": {phase: [[2**41 - 1, 1]]}}, None),
        ]
    found = reasons(spark, REQUESTS, [value for value, _ in cases])
    assert list(zip([value for value, _ in cases], found, strict=True)) == cases


@pytest.mark.parametrize("rows", [silver.valid_rows, silver.quarantine_rows])
def test_the_json_of_an_event_is_parsed_once(spark, capsys, rows):
    rows(silver.parse_events(raw(spark, []), REQUESTS)).explain()
    assert capsys.readouterr().out.count("from_json(") == 1


def test_all_versions_of_requests_name_cached_ones_alike(spark):
    rows = [request_before(0, source="by_heart"), request_before(0, source="cached") | {"v": 2}, request(0)]
    records = [record(REQUESTS, offset, row) for offset, row in enumerate(rows)]
    found = (
        silver.valid_rows(silver.parse_events(raw(spark, records), REQUESTS))
        .select("offset", "source")
        .collect()
    )
    assert [row["source"] for row in sorted(found)] == ["cached", "cached", "client"]


def test_a_measure_must_be_a_number(spark):
    def spelled(text):
        return json.dumps(throttle(0, observed="?")).replace('"?"', text).encode()

    values = [spelled(text) for text in ("0.0", "null", "NaN", "Infinity", "-Infinity", "1e999")]
    assert reasons(spark, THROTTLES, values) == [None, None, *["observed is not a number"] * 4]


@pytest.mark.parametrize("name", ["observed", "bound"])
def test_a_measure_is_no_larger_than_a_count(spark, name):
    sizes = [MAX_COUNT - 0.5, MAX_COUNT, MAX_COUNT + 0.5]
    values = [throttle(0, **{name: sign * size}) for sign in (1, -1) for size in sizes]
    assert reasons(spark, THROTTLES, values) == [None, None, f"{name} is too large"] * 2


def test_a_count_that_may_be_missing_is_a_count_where_it_is_not(spark):
    values = [throttle(0), throttle(0, waited=0), throttle(0, waited=-1), throttle(0, sent_early=-1)]
    reasons_of = reasons(spark, THROTTLES, values)
    assert reasons_of == [None, None, "waited is not a count", "sent_early is not a count"]


def named(spark, topic, **fields):
    """Return the names of the client of one event."""
    value = event(0, requests=1, count=1, throttle_ms=1, partition_count=1, **fields)
    return rows_of(taken(spark, topic, [value]), "principal", "client_id")


NOT_THERE = {"principal": None, "client_id": None}


@pytest.mark.parametrize("missing", [{}, NOT_THERE])
@pytest.mark.parametrize(
    ("topic", "fields", "names"),
    [
        (REQUESTS, {"source": "client"}, ("ANONYMOUS", "")),
        (REQUESTS, {"source": "others"}, (None, None)),
        (REQUESTS, {"source": "cached"}, (None, None)),
        (THROTTLES, {}, ("ANONYMOUS", "")),
        (CONNECTIONS, {"event": "closed"}, ("", "")),
        (CONNECTIONS, {"event": "opened"}, (None, None)),
        (TRANSACTIONS, {"event": "aborted"}, ("", "")),
    ],
)
def test_a_client_without_a_name_has_the_one_that_a_broker_writes(spark, topic, fields, names, missing):
    assert named(spark, topic, **fields, **missing) == [names]


def test_a_client_keeps_the_name_that_it_has(spark):
    for given in ({"principal": "alice"}, {"client_id": "a"}, {"principal": "", "client_id": ""}):
        expected = {"principal": "ANONYMOUS", "client_id": ""} | given
        assert named(spark, REQUESTS, source="client", **given) == [tuple(expected.values())]


def test_an_event_is_on_its_own_day_and_not_on_that_of_its_record(spark):
    half_a_day_late = record(CONNECTIONS, 7, event(-12 * 3600 - 1, event="opened", count=3))
    frame = silver.valid_rows(silver.parse_events(raw(spark, [half_a_day_late]), CONNECTIONS))
    (row,) = frame.collect()
    assert (str(row["date"]), row["node"], row["count"], row["offset"]) == ("2025-11-20", 1, 3, 7)


def test_a_node_that_is_not_a_number_matches_no_node(spark):
    rows = [
        record(
            CONNECTIONS, 0, event(0, count=1), node="\udcff".encode("utf-8", "surrogatepass").decode("latin1")
        )
    ]
    frame = silver.valid_rows(silver.parse_events(raw(spark, rows), CONNECTIONS))
    assert rows_of(frame, "node") == [(None,)]


def test_refused_events_are_kept_as_they_came(spark):
    opened = silver.parse_events(
        raw(spark, [record(REQUESTS, 3, b"?"), record(REQUESTS, 4, request(0))]), REQUESTS
    )
    (row,) = silver.quarantine_rows(opened).collect()
    assert (row["offset"], bytes(row["value"]), row["headers"][0]["key"]) == (3, b"?", "node")


def test_records_of_an_unknown_topic_are_quarantined(spark):
    found = silver.unknown_topics(raw(spark, [record("__weir_tomorrow", 0, b"x")]))
    assert rows_of(found, "topic", "reason") == [("__weir_tomorrow", "unknown topic")]


def test_only_the_events_of_the_topic_are_taken(spark):
    assert taken(spark, REQUESTS, [request(0), request(1)]).count() == 2
