"""A recorded load: the broker's records of __weir_requests, one on a line."""

import json
from array import array
from pathlib import Path

import pytest

from broker.common.strict_yaml import BadFileError
from broker.quotas.kinds import QuotaKind
from broker.simulation.scenario_file import read_recorded

BEGAN = 1_763_749_800_000
ROW = {
    "v": 1,
    "time_ms": BEGAN,
    "source": "client",
    "principal": "a",
    "client_id": "c",
    "api": "Produce",
    "requests": 2,
    "bytes_in": 30,
    "bytes_out": 8,
    "errors": {"0": 2},
}


def read(tmp_path: Path, *lines: object):
    path = tmp_path / "load.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return read_recorded(path)


def test_rows_are_gathered_by_client_and_kind(tmp_path):
    produce, fetch, other = read(
        tmp_path,
        ROW,
        ROW | {"api": "FetchConsumer"},
        ROW | {"api": "Metadata"},
        ROW | {"time_ms": BEGAN + 4_001, "bytes_in": 7, "requests": 1},
        ROW | {"time_ms": BEGAN + 4_001, "principal": "b"},
    )
    assert (produce.user, produce.client_id, produce.kind) == ("a", "c", QuotaKind.PRODUCE)
    assert (produce.seconds, produce.requests) == (array("L", [0, 4]), array("L", [2, 1]))
    assert produce.nbytes == array("Q", [30, 7])
    assert (fetch.kind, fetch.nbytes, other.user) == (QuotaKind.FETCH, array("Q", [8]), "b")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_versions_of_the_format_are_read(tmp_path, version):
    (client,) = read(tmp_path, ROW | {"v": version})
    assert client.nbytes == array("Q", [30])


def test_a_second_without_requests_is_nothing(tmp_path):
    assert read(tmp_path, ROW | {"requests": 0, "bytes_in": 0}) == ()


@pytest.mark.parametrize("source", ["others", "cached"])
def test_sums_of_several_clients_are_skipped(tmp_path, source):
    assert read(tmp_path, {"v": 1, "time_ms": BEGAN, "source": source, "requests": 5}) == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is not JSON"),
        ([], "line 2 is not an object"),
        (ROW | {"v": 4}, "line 2: v is 4, expected 1, 2 or 3"),
        (ROW | {"v": None}, "line 2: v is None, expected 1, 2 or 3"),
        ({"v": 1, "source": "client"}, "line 2: time_ms is missing"),
        (ROW | {"bytes_in": -1}, "bytes_in is -1, expected 0"),
        (ROW | {"bytes_in": 1.5}, "bytes_in is not of type int"),
        (ROW | {"bytes_in": True}, "bytes_in is not of type int"),
        (ROW | {"bytes_out": 2**53 + 1}, "expected 0 to 2^53"),
        (ROW | {"client_id": None}, "client_id is missing"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path, line, words):
    with pytest.raises(BadFileError) as refused:
        read(tmp_path, ROW, line)
    assert words in str(refused.value)


def test_time_does_not_step_back(tmp_path):
    with pytest.raises(BadFileError, match="line 2: time_ms"):
        read(tmp_path, ROW, ROW | {"time_ms": BEGAN - 1})
