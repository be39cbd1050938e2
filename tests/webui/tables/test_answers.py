"""Control's rows as JSON: nothing is forgotten, and everything fits its schema."""

from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec.structs import replace

from broker.common.slices import SLICE, run_through
from broker.controller.rows.broker import BrokerMetrics, Overview, PhaseRow, QueueRow, TaskRow
from broker.controller.rows.connections import ConnectionRow, ThrottledRow
from broker.controller.rows.fields import (
    HIDDEN,
    LEFT_OUT,
    Configs,
    Hex,
    Measured,
    Moment,
    Node,
    Rate,
    RuleEntity,
    ShownEntity,
    Tags,
    one_of,
    pairs,
)
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, broker_metrics, connection, tasks, throttled
from webui.live.history import History
from webui.live.snapshot import overview_json, throttled_json
from webui.rest.connections import CONNECTION
from webui.rest.overview import OVERVIEW, TASK
from webui.rest.usage import THROTTLED
from webui.schema import Text
from webui.tables.answers import as_json, as_json_in_steps, schema_of

QUEUES = (QueueRow("requests", 1, 500, 9),)
PHASES = (PhaseRow("PRODUCE", "TotalTimeMs", 3, 0.5, float("nan")),)


def test_figures_are_all_there() -> None:
    answer = as_json(broker_metrics(queues=QUEUES, phases=PHASES))
    assert answer.keys() == set(BrokerMetrics.__struct_fields__)
    assert answer["phases"][0]["p99_ms"] is None
    schema_of(BrokerMetrics).check(answer)


def test_a_share_that_is_no_number_is_none() -> None:
    assert as_json(broker_metrics(processor_idle=float("nan")))["processor_idle"] is None


def test_the_overview_is_all_there(broker: FakeBroker) -> None:
    answer = overview_json(broker.overview(), NOW_MS)
    assert answer.keys() == set(Overview.__struct_fields__) | {"at"}
    OVERVIEW.check(answer | {"history": dict(History().columns(9))})


def test_a_connection_is_all_there() -> None:
    answer = as_json(connection("app"))
    assert set(answer) == {name.replace("_at_ms", "_at") for name in ConnectionRow.__struct_fields__}
    CONNECTION.check(answer)


def test_a_task_is_all_there() -> None:
    for row in tasks():
        answer = as_json(row)
        assert set(answer) == {name.replace("_at_ms", "") for name in TaskRow.__struct_fields__}
        TASK.check(answer)


def test_a_throttle_says_since_when() -> None:
    answer = throttled_json(throttled(), NOW_MS)
    assert set(answer) == {name.replace("since_ms", "since") for name in ThrottledRow.__struct_fields__}
    assert answer["since"] == "2027-01-15T07:59:59.400Z"
    THROTTLED.check(answer)


def test_a_throttle_by_the_default_names_it_null() -> None:
    row = replace(throttled(), entity=(("user", None), ("client-id", "<default>")), observed=float("inf"))
    answer = throttled_json(row, NOW_MS)
    assert answer["entity"] == {"user": None, "client-id": "<default>"} and answer["observed"] is None


@pytest.mark.parametrize("node", [None, -1, 0, 2])
def test_a_throttle_names_the_upstream_node_where_the_limit_holds(node: int | None) -> None:
    answer = throttled_json(throttled(upstream_node=node), NOW_MS)
    assert answer["upstream_node"] == node
    THROTTLED.check(answer)


def test_a_throttle_by_a_callback_names_its_tags() -> None:
    row = replace(throttled(), entity=(), tags=(("group", "red"),))
    answer = throttled_json(row, NOW_MS)
    assert (answer["entity"], answer["tags"]) == ({}, [{"name": "group", "value": "red"}])
    THROTTLED.check(answer)


class Colour(StrEnum):
    RED = "red"


class Part(msgspec.Struct, frozen=True):
    rate: Rate


class Row(msgspec.Struct, frozen=True):
    """A field of every type that an answer shows."""

    name: str
    count: int
    node: Node
    ratio: float
    measured: Measured
    flag: bool | None
    colour: Colour
    state: Annotated[str, one_of("on", "off")]
    part: Annotated[Part, msgspec.Meta(title="Part")]
    parts: tuple[Part, ...]
    more_parts: list[Part]
    names: tuple[str, ...]
    tags: Tags
    configs: Configs
    entity: ShownEntity
    rule: RuleEntity
    counts: Annotated[tuple[tuple[str, int], ...], pairs("rule", "count"), msgspec.Meta(max_length=7)]
    by_name: dict[str, Part]
    ages: dict[str, int]
    mark: Annotated[str, msgspec.Meta(min_length=1, max_length=2)]
    id: Hex
    at_ms: Moment
    last_ms: Moment | None = msgspec.field(name="last_at", default=None)
    more: Annotated[Part | None, LEFT_OUT] = None
    secret: Annotated[bytes, HIDDEN] = b""


ROW = Row(
    *("a", 1, -1, 0.5, float("nan"), None, Colour.RED, "on", Part(1.0), (Part(2.0),), [], ("x", "y")),
    *(
        (("k", "v"),),
        (("c", "d"),),
        (),
        (("user", None),),
        (("r", 3),),
        {"n": Part(4.0)},
        {"n": 5},
        "m",
        b"\x0f",
        NOW_MS,
    ),
)


def test_each_type_is_shown_in_its_form_in_the_order_of_the_fields() -> None:
    answer = as_json(ROW)
    assert list(answer.items()) == [
        ("name", "a"),
        ("count", 1),
        ("node", -1),
        ("ratio", 0.5),
        ("measured", None),
        ("flag", None),
        ("colour", "red"),
        ("state", "on"),
        ("part", {"rate": 1.0}),
        ("parts", [{"rate": 2.0}]),
        ("more_parts", []),
        ("names", ["x", "y"]),
        ("tags", [{"name": "k", "value": "v"}]),
        ("configs", {"c": "d"}),
        ("entity", {}),
        ("rule", {"user": None}),
        ("counts", [{"rule": "r", "count": 3}]),
        ("by_name", {"n": {"rate": 4.0}}),
        ("ages", {"n": 5}),
        ("mark", "m"),
        ("id", "0f"),
        ("at", "2027-01-15T08:00:00.000Z"),
        ("last_at", None),
    ]
    schema_of(Row).check(answer)
    full = as_json(replace(ROW, more=Part(3.0), last_ms=NOW_MS))
    assert (full["more"], full["last_at"]) == ({"rate": 3.0}, "2027-01-15T08:00:00.000Z")
    schema_of(Row).check(full)


def test_steps_make_the_same_answer() -> None:
    full = replace(ROW, more=Part(3.0), last_ms=NOW_MS, parts=(Part(2.0), Part(3.0)), more_parts=[Part(1.0)])
    for row in (ROW, full):
        assert list(run_through(as_json_in_steps(row)).items()) == list(as_json(row).items())


@pytest.mark.parametrize("count", [0, 1, SLICE - 1, SLICE, SLICE + 1, 4 * SLICE])
def test_long_lists_are_converted_in_steps(count: int) -> None:
    pairs = tuple(("r", number) for number in range(count))
    row = replace(ROW, counts=pairs, parts=(Part(1.0),) * count)
    few = sum(1 for _ in as_json_in_steps(replace(ROW, counts=(), parts=())))
    assert sum(1 for _ in as_json_in_steps(row)) == few + 2 * count + -(-count // SLICE)
    assert run_through(as_json_in_steps(row)) == as_json(row)


def test_the_schema_contains_the_limits_of_each_type() -> None:
    described = schema_of(Row, "Thing", name=Text(max_length=5), extra=Text()).describe()
    fields = described["properties"]
    assert described["title"] == "Thing" and "secret" not in fields
    assert set(fields) - set(described["required"]) == {"more"}
    assert fields["name"]["maxLength"] == 5 and "extra" in fields
    assert fields["count"] == {"type": "integer", "minimum": 0}
    assert fields["node"] == {"type": "integer", "minimum": -1}
    assert fields["ratio"] == {"type": "number"}
    assert fields["measured"] == {"type": ["number", "null"]}
    assert fields["flag"] == {"type": ["boolean", "null"]}
    assert fields["colour"] == {"type": "string", "enum": ["red"]}
    assert fields["state"] == {"type": "string", "enum": ["on", "off"]}
    assert fields["part"]["title"] == "Part"
    assert fields["part"]["properties"] == {"rate": {"type": "number", "minimum": 0}}
    assert fields["counts"]["maxItems"] == 7
    assert fields["rule"]["title"] == "Entity" and "minProperties" not in fields["entity"]
    assert fields["by_name"]["additionalProperties"]["properties"] == fields["part"]["properties"]
    assert (fields["mark"]["minLength"], fields["mark"]["maxLength"]) == (1, 2)
    assert fields["at"]["format"] == "date-time" and fields["last_at"]["type"] == ["string", "null"]


def test_a_type_that_no_answer_shows_is_refused() -> None:
    class Odd(msgspec.Struct):
        many: set[int]

    with pytest.raises(TypeError, match="cannot show"):
        schema_of(Odd)
