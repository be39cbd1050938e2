"""The latest values of each instance: deltas are added up, and the number of series is limited."""

import pytest

from broker.telemetry.latest import HISTORY_LENGTH, LatestValues, Point, PushedPoints, Shape

A, B = b"a" * 16, b"b" * 16


def point(
    name: str = "m", value: float = 1.0, *, shape: Shape = Shape.GAUGE, delta: bool = False, **labels: str
) -> Point:
    pairs = tuple(sorted(labels.items()))
    return Point(name, pairs, name.replace(".", "_"), pairs, shape, value, delta)


def take(latest: LatestValues, instance: bytes, *points: Point, at: int = 0, left_out: int = 0) -> None:
    latest.take(instance, PushedPoints(list(points), left_out), at)


def values(latest: LatestValues, instance: bytes = A) -> dict[str, float]:
    return {family: series.value for (family, _), series in latest.of(instance)}


def test_the_last_value_holds_and_differences_are_added_up() -> None:
    latest = LatestValues(100)
    for value in (3.0, 4.0):
        take(latest, A, point("g", value), point("c", value, shape=Shape.COUNTER, delta=True))
    assert values(latest) == {"g": 4.0, "c": 7.0}


def test_a_little_of_the_past_is_kept() -> None:
    latest = LatestValues(100)
    for number in range(HISTORY_LENGTH + 5):
        take(latest, A, point(value=number), at=1_000 * number)
    ((_, series),) = latest.of(A)
    assert len(series.history) == 2 * HISTORY_LENGTH
    assert list(series.history[:2]) == [5_000, 5] and list(series.history[-2:]) == [34_000, 34]


def test_series_are_distinguished_by_labels_and_instances() -> None:
    latest = LatestValues(100)
    take(latest, A, point(value=1, node="1"), point(value=2, node="2"))
    take(latest, B, point(value=3, node="1"))
    ((family, shape, samples),) = latest.families()
    assert (family, shape) == ("m", Shape.GAUGE)
    assert sorted((who, dict(labels)["node"], value) for who, labels, value in samples) == [
        (A, "1", 1),
        (A, "2", 2),
        (B, "1", 3),
    ]


def test_two_names_that_look_alike_to_prometheus_are_one_series() -> None:
    latest = LatestValues(100)
    take(latest, A, point("a.b", 1), point("a_b", 2))
    assert len(latest) == 1 and values(latest) == {"a_b": 2}


@pytest.mark.parametrize(("new", "kept"), [(9, 9), (10, 10), (11, 10)])
def test_one_instance_has_a_tenth_of_the_space(new: int, kept: int) -> None:
    latest = LatestValues(100)
    take(latest, A, *(point(str(number)) for number in range(new)))
    assert (len(latest), latest.left_out) == (kept, new - kept)
    take(latest, B, point("b"))
    assert len(latest) == kept + 1


def test_all_instances_together_have_the_space_and_one_that_leaves_frees_some() -> None:
    latest = LatestValues(10)
    for number in range(11):
        take(latest, bytes([number]), point())
    assert (len(latest), latest.left_out) == (10, 1)
    latest.drop(bytes([0]))
    take(latest, B, point())
    assert (len(latest), latest.left_out) == (10, 1)
    for number in range(11):
        latest.drop(bytes([number]))
    latest.drop(B)
    assert len(latest) == 0 and not list(latest.families())


def test_a_capacity_of_zero_remembers_nothing() -> None:
    latest = LatestValues(0)
    take(latest, A, point())
    assert (len(latest), latest.left_out, list(latest.of(A))) == (0, 1, [])


def test_a_family_is_of_one_shape_while_any_client_has_it() -> None:
    latest = LatestValues(100)
    take(latest, A, point("m"))
    take(latest, B, point("m", shape=Shape.COUNTER))
    assert (len(latest), latest.left_out) == (1, 1)
    latest.drop(A)
    take(latest, B, point("m", shape=Shape.COUNTER))
    assert len(latest) == 1


@pytest.mark.parametrize("name", ["kafka_server_x", "weir_x", "process_cpu", "up"])
def test_a_client_cannot_speak_for_the_broker(name: str) -> None:
    latest = LatestValues(100)
    take(latest, A, point(name))
    assert (len(latest), latest.left_out) == (0, 1)


def test_unreadable_points_are_counted_with_those_without_space() -> None:
    latest = LatestValues(100)
    take(latest, A, point(), left_out=3)
    assert latest.left_out == 3


def test_families_are_those_of_the_beginning_though_instances_come_and_go() -> None:
    """A response to /metrics is made in slices."""
    latest = LatestValues(100)
    take(latest, A, point("a", 1), point("b", 2))
    found = latest.families()
    first = next(found)
    latest.drop(A)
    take(latest, B, point("c", 3))
    assert [first, *found] == [
        ("a", Shape.GAUGE, [(A, (), 1.0)]),
        ("b", Shape.GAUGE, [(A, (), 2.0)]),
    ]
