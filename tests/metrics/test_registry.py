"""Registry, families and the Prometheus page."""

from math import inf, nan

import pytest

from broker.metrics.prometheus import render
from broker.metrics.registry import OTHER, FamilySamples, Kind, Registry, Sample

START = 1_700_000_000_000


def page(registry: Registry, now_ms: int = START) -> str:
    return render(registry.collect(now_ms)).decode()


def test_a_series_is_made_once_for_its_label_values():
    registry = Registry()
    requests = registry.counter("requests_total", "Requests", ("request", "version"))
    series = requests.labels("Produce", "9")
    series.value += 2
    requests.labels("Produce", "9").value += 1
    assert requests.labels("Produce", "9") is series
    assert page(registry) == (
        "# HELP requests_total Requests\n# TYPE requests_total counter\n"
        'requests_total{request="Produce",version="9"} 3\n'
    )


def test_a_family_without_labels_has_one_series():
    registry = Registry()
    registry.gauge("depth", "Depth").labels().value = 1.5
    assert page(registry) == "# HELP depth Depth\n# TYPE depth gauge\ndepth 1.5\n"


def test_a_wrong_number_of_labels_is_refused():
    family = Registry().counter("c", "C", ("a",))
    with pytest.raises(ValueError, match="has the labels"):
        family.labels("x", "y")


def test_a_name_is_given_once():
    registry = Registry()
    registry.counter("c", "C")
    with pytest.raises(ValueError, match="already a metric family c"):
        registry.gauge("c", "C")


def test_beyond_the_limit_all_new_series_are_one():
    family = Registry().counter("c", "C", ("client_id",), max_series=2)
    family.labels("a").value += 1
    family.labels("b").value += 1
    for name in ("c", "d"):
        family.labels(name).value += 1
    assert [(values, series.value) for values, series in family.items()] == [
        (("a",), 1),
        (("b",), 1),
        ((OTHER,), 2),
    ]
    family.forget("a")
    family.forget("unknown")
    assert [values for values, _ in family.items()] == [("b",), (OTHER,)]


def test_a_histogram_is_shown_as_recent_quantiles_with_sum_and_count():
    registry = Registry()
    series = registry.histogram("time_ms", "Time", ("request",), bounds=(10.0, 20.0)).labels("Fetch")
    for value in (5, 15):
        series.record(value)
    lines = page(registry).splitlines()
    assert lines[1] == "# TYPE time_ms summary"
    assert lines[2] == 'time_ms{request="Fetch",quantile="0.5"} 10.0'
    assert lines[-2:] == ['time_ms_sum{request="Fetch"} 20.0', 'time_ms_count{request="Fetch"} 2']


def test_sources_are_read_when_somebody_looks_and_families_of_one_name_share_a_heading():
    registry = Registry()
    registry.counter("z_total", "Z").labels().value = 1
    for name in ("produce", "fetch"):
        registry.add_source(
            lambda now_ms, name=name: [
                FamilySamples("queue_size", "Held", Kind.GAUGE, [Sample((("type", name),), now_ms - START)])
            ]
        )
    assert page(registry, START + 7).splitlines()[2:] == [
        "z_total 1",
        "# HELP queue_size Held",
        "# TYPE queue_size gauge",
        'queue_size{type="produce"} 7',
        'queue_size{type="fetch"} 7',
    ]


def test_what_a_client_calls_itself_cannot_leave_its_quotes():
    name = 'a"} 1\nevil 2 \\ \u2028 \ud800'
    family = FamilySamples("m", "two\nlines \\", Kind.GAUGE, [Sample((("client_id", name),), 1.0)])
    text = render([family]).decode()
    assert text.split("\n") == [
        "# HELP m two\\nlines \\\\",
        "# TYPE m gauge",
        'm{client_id="a\\"} 1\\nevil 2 \\\\ \u2028 \\ud800"} 1.0',
        "",
    ]


def test_numbers_that_are_not_finite_have_names():
    samples = [Sample((), value) for value in (nan, inf, -inf, 3)]
    assert render([FamilySamples("m", "M", Kind.GAUGE, samples)]).decode().splitlines()[2:] == [
        "m NaN",
        "m +Inf",
        "m -Inf",
        "m 3",
    ]
