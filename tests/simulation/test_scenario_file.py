"""A scenario from a file, and the errors of invalid files."""

from pathlib import Path

import pytest

from broker.common.strict_yaml import BadFileError
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.scenario import SECOND_US, Piece
from broker.simulation.scenario_file import read_scenario

CLIENT = "{name: a, kind: produce, request: 1kB, rate: 10kB"


def read(tmp_path: Path, text: str):
    path = tmp_path / "load.yaml"
    path.write_text(text)
    return read_scenario(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(BadFileError) as refused:
        read(tmp_path, text)
    return str(refused.value)


def test_everything_that_may_stand_in_a_file(tmp_path):
    found = read(
        tmp_path,
        """
duration: 2h
seed: 9
latency: 3ms
settings: {quota.window.num: 3, quota.bandwidth.algorithm: rate}
quotas:
- entity: {user: 123, client-id: null}
  limits: {producer_byte_rate: 1e6}
clients:
- name: web
  count: 3
  user: u{n}
  client-id: c
  kind: fetch
  request: 1.5kB
  rate: 2MB
  connections: 4
  obeys: no
  batch: 64kB
  patience: forever
  handling: 20us
  schedule: {bursts: {every: 1h, for: 10m}}
  start: 00:05
  stop: 90m
""",
    )
    (group,) = found.groups
    assert (found.duration_us, found.seed, found.latency_us) == (7_200 * SECOND_US, 9, 3_000)
    assert (found.settings.window_num, found.settings.bandwidth_algorithm) == (3, "rate")
    assert found.limits[0].entity == Entity("123", DEFAULT)
    assert found.limits[0].values == {"producer_byte_rate": 1_000_000}
    assert (group.names(2), group.count, group.kind) == (("u2", "c"), 3, QuotaKind.FETCH)
    assert (group.request_bytes, group.rate, group.connections) == (1_500, 2_000_000, 4)
    assert (group.obeys, group.batch_bytes, group.patience_us) == (False, 64_000, None)
    assert group.handling_ns == 20_000
    minute = 60 * SECOND_US
    assert group.pieces == (Piece(5 * minute, 10 * minute, 1), Piece(60 * minute, 70 * minute, 1))


def test_omitted_keys_have_their_defaults(tmp_path):
    found = read(tmp_path, "clients: [{name: a, kind: produce, request: 1kB, rate: greedy}]")
    (group,) = found.groups
    assert (found.duration_us, found.limits) == (86_400 * SECOND_US, ())
    assert (group.names(1), group.rate, group.obeys) == (("ANONYMOUS", "a-1"), None, True)
    assert group.patience_us == 120 * SECOND_US


def test_quotas_may_lie_in_a_file_beside_it(tmp_path):
    (tmp_path / "quotas.yaml").write_text("quotas:\n- {entity: {user: a}, limits: {consumer_byte_rate: 5}}\n")
    assert read(tmp_path, f"quotas: quotas.yaml\nclients: [{CLIENT}}}]").limits[0].entity == Entity("a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "load.yaml is empty"),
        ("a: [", "load.yaml is not YAML"),
        ("- 1", "line 1: expected a mapping"),
        ("duration: 1h", "expected either clients or recorded"),
        ("clients: []\nrecorded: x", "expected either clients or recorded"),
        ("clients: []\nclient: []", "line 2: client: unknown; expected one of"),
        ("clients: []\nclients: []", "line 2: clients: is given twice"),
        ("clients: 5", "line 1: clients: expected a list"),
        ("clients: []\nduration: -1", "line 2: duration: -1: expected a number"),
        ("clients: []\nduration: 0", "duration: must be more than 0"),
        (
            "clients: []\nduration: 5 weeks",
            "duration: 5 weeks: expected a number with one of the units us, ms, s, m, h, d",
        ),
        ("clients: []\nduration: .inf", "duration: .inf: expected a number"),
        ("clients: []\nseed: x", "seed: x: expected a whole number"),
        ("clients: []\nsettings: {quota.window.num: 0}", "line 2: settings: quota.window.num"),
        ("clients: []\nsettings: {quota.windows: 3}", "settings.quota.windows: unknown; expected one of"),
        ("clients: [{name: a}]", "line 1: clients[0]: kind is missing"),
        (f"clients: [{CLIENT}, kind: both}}]", "clients[0].kind: is given twice"),
        ("clients: [{name: a, kind: both}]", "clients[0].kind: both: expected produce or fetch"),
        (
            f"clients:\n- {CLIENT}, count: 0}}",
            "line 2: clients[0].count: 0: expected a whole number from 1 to 100000",
        ),
        (f"clients: [{CLIENT}, connections: 1001}}]", "connections: 1001: expected"),
        (f"clients: [{CLIENT}, obeys: perhaps}}]", "obeys: perhaps: expected true or false"),
        (f"clients: [{CLIENT}, schedule: weekly}}]", "schedule: weekly: expected"),
        (
            f"clients: [{CLIENT}, schedule: {{diurnal: {{low: 1.1}}}}}}]",
            "diurnal.low: 1.1: expected a number from 0 to 1",
        ),
        (f"clients: [{CLIENT}, schedule: {{bursts: {{every: 1m}}}}}}]", "bursts: for is missing"),
        (f"clients: [{CLIENT}, schedule: {{bursts: {{every: 1m, for: 1m}}}}}}]", "longer than for"),
        (f"clients: [{CLIENT}, start: 5h, stop: 5h}}]", "clients[0]: start must be before stop"),
        (f"clients: [{CLIENT}, start: 24:00}}]", "start: 24:00: expected a number"),
        (f"clients: [{CLIENT}}}, {CLIENT}}}]", "clients[1]: the name a is given twice"),
        (f"clients: [{CLIENT}, count: 60000, connections: 2}}]", "more than 100000 connections"),
        (
            "clients: [{name: a, kind: produce, request: 1kB, rate: 1MB}]",
            "more connections or larger requests",
        ),
        ("clients: [{name: a, kind: produce, request: 3GB, rate: 1}]", "request: 3000000000: expected 1 to"),
        (
            "clients: [{name: a, kind: produce, request: 1, rate: greedy, schedule: {diurnal: {low: 0}}}]",
            "a greedy client supports only",
        ),
        ("clients: []\nquotas: [{entity: {user: a}}]", "quotas[0]: limits is missing"),
        ("clients: []\nquotas: [{entity: {}, limits: {}}]", "quotas[0]: Invalid empty client quota entity"),
        ("clients: []\nquotas: [{entity: {usr: a}, limits: {}}]", "entity.usr: unknown; expected one of"),
        ("clients: []\nquotas: [{entity: {user: a}, limits: {rate: 1}}]", "Invalid configuration key rate"),
        (
            "clients: []\nquotas: [{entity: {user: a}, limits: {producer_byte_rate: x}}]",
            "x: enter a number with a unit",
        ),
        (
            "clients: []\nquotas: [{entity: {user: a}, limits: {producer_byte_rate: nan}}]",
            "nan: enter a number with a unit",
        ),
        (
            "clients: []\nquotas:\n- {entity: {user: a}, limits: {}}\n- {entity: {user: a}, limits: {}}",
            "line 4: quotas[1]: user a is given twice",
        ),
        ("clients: []\nquotas: not-there.yaml", "not-there.yaml cannot be read"),
        ("recorded: not-there.jsonl", "not-there.jsonl cannot be read"),
    ],
)
def test_impossible_values_are_refused_with_their_place(tmp_path, text, words):
    assert words in refusal(tmp_path, text)


def test_a_limit_in_a_file_may_be_in_shadow(tmp_path):
    limits = "[{entity: {user: a}, limits: {producer_byte_rate: 5}, shadow: true}]"
    assert read(tmp_path, f"quotas: {limits}\nclients: [{CLIENT}}}]").limits[0].is_shadow


def test_the_temporary_limits_of_an_export_are_left_out(tmp_path):
    temporary = "{producer_byte_rate: {value: 50 MB, until: 2026-12-01T18:00:00Z}}"
    limits = f"[{{entity: {{user: a}}, limits: {{producer_byte_rate: 5}}, temporary: {temporary}}}]"
    (limit,) = read(tmp_path, f"quotas: {limits}\nclients: [{CLIENT}}}]").limits
    assert limit.values == {"producer_byte_rate": 5.0}
