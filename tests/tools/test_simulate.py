"""`weir simulate`, run through a shell."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.__main__ import main

LOAD = """
duration: 1m
quotas:
- {entity: {user: u}, limits: {producer_byte_rate: 100000, controller_mutation_rate: 2}}
clients:
- {name: greedy, user: u, kind: produce, request: 10kB, rate: greedy}
- {name: quiet, user: v, kind: produce, request: 10kB, rate: 10kB}
"""
WIDER = "quotas: [{entity: {user: u}, limits: {producer_byte_rate: 200000}}]"


@pytest.fixture
def load(tmp_path: Path) -> Path:
    path = tmp_path / "load.yaml"
    path.write_text(LOAD)
    (tmp_path / "wider.yaml").write_text(WIDER)
    (tmp_path / "none.yaml").write_text("quotas: []")
    return path


def weir(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def test_the_table_has_the_throttled_clients_and_their_rules(load):
    done = weir(load)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    (greedy,) = [line for line in lines if line.startswith("greedy")]
    (quiet,) = [line for line in lines if line.startswith("quiet")]
    assert "user u: 100 kB/s" in greedy
    assert "no limit" in quiet
    assert "0.0%" in quiet
    assert "Not simulated: controller_mutation_rate of user u: it is not simulated" in lines


def test_json_has_the_figures(load):
    shown = json.loads(weir(load, "--json").output)
    greedy, quiet = shown["clients"]
    (rule,) = shown["rules"]
    assert rule["entity"] == {"user": "u"}
    assert rule["accepted_bytes"] == greedy["accepted_bytes"]
    assert greedy["accepted_rate"] == pytest.approx(100_000, rel=0.01)
    assert greedy["throttles"] > 400
    assert (quiet["throttles"], quiet["accepted_bytes"], quiet["rules"]) == (0, 600_000, [None])


def test_the_same_file_gives_the_same_bytes(load):
    assert weir(load, "--json").output == weir(load, "--format", "json").output


def test_another_quota_file_can_be_compared(load):
    shown = json.loads(weir(load, "--json", "--compare", load.parent / "wider.yaml").output)
    assert shown["clients"][0]["accepted_rate"] == pytest.approx(100_000, rel=0.01)
    assert shown["compared"]["clients"][0]["accepted_rate"] == pytest.approx(200_000, rel=0.01)
    table = weir(load, "--compare", load.parent / "wider.yaml").output
    assert "user u: 200 kB/s" in table


def test_csv_has_a_line_for_each_group_and_quota_file(load):
    rows = list(
        csv.DictReader(
            weir(load, "--format", "csv", "--compare", load.parent / "none.yaml").output.splitlines()
        )
    )
    assert [(row["quotas"], row["name"]) for row in rows] == [
        ("before", "greedy"),
        ("before", "quiet"),
        ("after", "greedy"),
        ("after", "quiet"),
    ]
    assert rows[2]["throttles"] == "0"


@pytest.mark.parametrize(
    ("options", "status"), [((), 3), (("--quotas", "none.yaml"), 0), (("--compare", "none.yaml"), 0)]
)
def test_check_ends_with_a_status_of_its_own_while_any_client_is_held(load, options, status):
    options = [load.parent / each if each.endswith("yaml") else each for each in options]
    assert weir(load, "--check", *options).exit_code == status


def test_a_bad_file_ends_with_1_and_says_where(load):
    load.write_text("clients: [{name: a}]")
    done = weir(load)
    assert done.exit_code == 1
    assert "load.yaml line 1: clients[0]: kind is missing" in done.output


def test_too_much_to_play_ends_with_1(load):
    done = weir(load, "--max-requests", 10)
    assert done.exit_code == 1
    assert "10 requests were simulated" in done.output


def test_a_file_that_is_not_there_is_a_matter_of_usage(load):
    assert weir(load.parent / "other.yaml").exit_code == 2


def test_a_recorded_load_is_played_too(tmp_path):
    (tmp_path / "day.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "v": 1,
                    "time_ms": 1_763_749_800_000 + second * 1_000,
                    "source": "client",
                    "principal": "u",
                    "client_id": "c",
                    "api": "Produce",
                    "requests": 50,
                    "bytes_in": 150_000,
                    "bytes_out": 0,
                }
            )
            + "\n"
            for second in range(60)
        )
    )
    (tmp_path / "replay.yaml").write_text(
        "recorded: day.jsonl\nquotas: [{entity: {user: u}, limits: {producer_byte_rate: 100000}}]"
    )
    (client,) = json.loads(weir(tmp_path / "replay.yaml", "--json").output)["clients"]
    assert client["name"] == "u, c"
    assert client["offered_bytes"] == 9_000_000
    assert client["accepted_rate"] == pytest.approx(100_000, rel=0.01)
    assert client["waiting_bytes"] == 9_000_000 - client["accepted_bytes"]
