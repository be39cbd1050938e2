"""Control's rows as JSON: nothing is forgotten, and everything fits its schema."""

from dataclasses import fields, replace

import pytest

from broker.control.rows.tasks import TaskRow
from broker.control.views import ConnectionRow, Figures, Overview, PhaseRow, QueueRow, ThrottledRow
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, connection, figures, tasks, throttled
from webui.live.history import History
from webui.rest.answers import CONNECTION, FIGURES, OVERVIEW, TASK, THROTTLED
from webui.tables.json_output import (
    connection_json,
    figures_json,
    finite,
    overview_json,
    task_json,
    throttled_json,
    utc,
)

QUEUES = (QueueRow("requests", 1, 500, 9),)
PHASES = (PhaseRow("PRODUCE", "TotalTimeMs", 3, 0.5, float("nan")),)


def test_figures_are_all_there() -> None:
    answer = figures_json(figures(queues=QUEUES, phases=PHASES))
    assert answer.keys() == {field.name for field in fields(Figures)}
    assert answer["phases"][0]["p99_ms"] is None
    FIGURES.check(answer)


def test_a_share_that_is_no_number_is_none() -> None:
    assert figures_json(figures(processor_idle=float("nan")))["processor_idle"] is None


def test_the_overview_is_all_there(broker: FakeBroker) -> None:
    answer = overview_json(broker.overview(), NOW_MS)
    assert answer.keys() == {field.name for field in fields(Overview)} | {"at"}
    OVERVIEW.check(answer | {"history": dict(History().columns(9))})


def test_a_connection_is_all_there() -> None:
    answer = connection_json(connection("app"))
    assert set(answer) == {field.name.replace("_at_ms", "_at") for field in fields(ConnectionRow)}
    CONNECTION.check(answer)


def test_a_task_is_all_there() -> None:
    for row in tasks():
        answer = task_json(row)
        assert set(answer) == {field.name.replace("_at_ms", "") for field in fields(TaskRow)}
        TASK.check(answer)


def test_a_throttle_says_since_when() -> None:
    [answer] = throttled_json([throttled()], NOW_MS)
    assert set(answer) == {field.name.replace("since_ms", "since") for field in fields(ThrottledRow)}
    assert answer["since"] == "2027-01-15T07:59:59.400Z"
    THROTTLED.check(answer)


def test_a_throttle_by_the_default_names_it_null() -> None:
    row = replace(throttled(), entity=(("user", None), ("client-id", "<default>")), observed=float("inf"))
    [answer] = throttled_json([row], NOW_MS)
    assert answer["entity"] == {"user": None, "client-id": "<default>"} and answer["observed"] is None


def test_a_throttle_by_a_callback_names_its_tags() -> None:
    row = replace(throttled(), entity=(), tags=(("group", "red"),))
    [answer] = throttled_json([row], NOW_MS)
    assert (answer["entity"], answer["tags"]) == ({}, [{"name": "group", "value": "red"}])
    THROTTLED.check(answer)


@pytest.mark.parametrize(
    ("value", "kept"), [(1.5, 1.5), (0.0, 0.0), (None, None), (float("nan"), None), (float("inf"), None)]
)
def test_only_numbers_are_numbers(value: float | None, kept: float | None) -> None:
    assert finite(value) == kept


def test_times_are_utc_to_the_millisecond() -> None:
    assert utc(0) == "1970-01-01T00:00:00.000Z" and utc(NOW_MS + 7) == "2027-01-15T08:00:00.007Z"
