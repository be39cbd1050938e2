"""The replay of published vectors agrees with all of them, and reports a mismatch."""

import json
from pathlib import Path

import pytest

from tests.replay import main, replay_line

PUBLISHED = Path(__file__).parents[2] / "shared" / "vectors"

RATE = {
    "name": "spike",
    "stat": "rate",
    "samples": 11,
    "window_s": 1,
    "quota": 500.0,
    "start_ms": 1_700_000_000_000,
    "steps": [
        {"dt": 0, "record": 4_000.0, "rate": 400.0, "window_ms": 10_000, "violated": False, "throttle_ms": 0},
        {
            "dt": 500,
            "record": 2_300.0,
            "rate": 600.0,
            "window_ms": 10_500,
            "throttle_ms": 2_100,
            "bounded_ms": 1_000,
        },
    ],
}


def replay(script: object) -> tuple[int, int, list[str]]:
    tally = replay_line(json.dumps(script), "x.jsonl:1")
    return tally.agreed, tally.steps, tally.disagreements + tally.unknown


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published vectors lie outside the repository")
def test_every_step_of_every_published_vector_agrees(capsys):
    assert main([str(PUBLISHED)]) == 0
    agreed, _, steps, *_ = capsys.readouterr().out.splitlines()[-1].split()
    assert int(agreed) == int(steps) >= 900


def test_a_wrong_answer_is_a_disagreement_that_names_step_and_key():
    script = {**RATE, "steps": [RATE["steps"][0], {**RATE["steps"][1], "throttle_ms": 2_101}]}
    agreed, steps, problems = replay(script)
    assert (agreed, steps) == (1, 2)
    assert problems == ["x.jsonl:1 spike step 2: throttle_ms is 2100, not 2101"]


def test_an_answer_that_is_not_given_here_is_a_disagreement():
    _, _, problems = replay({**RATE, "steps": [{"dt": 0, "record": 1.0, "jitter": 3}]})
    assert problems == ["x.jsonl:1 spike step 1: jitter is not answered here, not 3"]


def test_steps_may_take_back_records_and_change_the_quota():
    steps = [
        {"record": 6_000.0, "rate": 600.0, "violated": True, "throttle_ms": 2_000},
        {"unrecord": 2_000.0, "rate": 400.0, "violated": False},
        {"quota": 200.0, "rate": 400.0, "violated": True, "throttle_ms": 10_000, "bounded_500_ms": 500},
    ]
    assert replay({**RATE, "steps": steps}) == (3, 3, [])


def test_a_bucket_answers_before_and_after_each_step():
    script = {
        "stat": "token_bucket",
        "samples": 10,
        "window_s": 1,
        "quota": 10.0,
        "start_ms": 1_700_000_000_000,
        "steps": [
            {"dt": 0, "record": 120.0, "tokens_before": 100.0, "tokens": -20.0, "exhausted": True},
            {"dt": 1_000, "tokens": -10.0, "throttle_ms": 1_000, "burst": 100.0},
            {"dt": 0, "unrecord": 15.0, "tokens": 5.0, "exhausted": False, "throttle_ms": 0},
        ],
    }
    assert replay(script) == (3, 3, [])


def test_a_row_of_the_formula_is_one_step():
    row = {
        "observed": 100.0,
        "quota": 50.0,
        "samples": 3,
        "window_s": 1,
        "throttle_ms": 2_000,
        "bounded_700_ms": 700,
    }
    assert replay(row) == (1, 1, [])
    assert replay({**row, "bounded_700_ms": 701})[0] == 0


def test_a_quota_of_zero_waits_as_long_as_a_long_can_say_and_bounded_one_window():
    row = {
        "observed": 1.0,
        "quota": 0.0,
        "samples": 11,
        "window_s": 1,
        "throttle_ms": 2**63 - 1,
        "bounded_1000_ms": 1_000,
    }
    assert replay(row) == (1, 1, [])


def test_a_release_of_what_is_not_held_is_illegal_as_is_an_impossible_pool():
    steps = [
        {"alloc": 10, "result": "ok", "available": 0, "oom": True},
        {"release": 9, "result": "illegal", "available": 0},
        {"release": 10, "result": "ok", "available": 10},
        {"release": 10, "result": "illegal", "available": 10, "oom": False, "used": 0},
    ]
    assert replay({"size": 10, "max_single": 10, "strict": True, "steps": steps}) == (4, 4, [])
    assert replay({"size": 10, "max_single": 11, "result": "illegal", "steps": []}) == (1, 1, [])
    assert replay({"size": 10, "max_single": 11, "steps": steps})[0] == 0


def test_headers_are_compared_and_former_names_of_apis_allowed():
    row = {
        "api": "ListClientMetricsResources",
        "key": 74,
        "version": 0,
        "request_header": 2,
        "response_header": 1,
    }
    assert replay(row) == (1, 1, [])
    assert replay({**row, "api": "Produce"})[0] == 0
    assert replay({**row, "key": 9_999})[0] == 0
    assert (
        replay({"api": "ApiVersions", "key": 18, "version": 3, "request_header": 2, "response_header": 0})[0]
        == 1
    )


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '{"stat": "histogram", "steps": []}',
        '{"stat": "rate", "steps": [{"dt": 0}]}',
        '{"a": 1}',
    ],
)
def test_a_line_of_unknown_form_is_named(line):
    tally = replay_line(line, "new.jsonl:7")
    assert tally.agreed == tally.steps == 0
    assert len(tally.unknown) == 1
    assert tally.unknown[0].startswith("new.jsonl:7: unknown form")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([json.dumps(RATE)], 0),
        ([json.dumps(RATE), "", "surprise"], 2),
        ([json.dumps({**RATE, "quota": 1.0}), "surprise"], 1),
        ([], 0),
    ],
)
def test_the_exit_status_says_what_came_out(tmp_path, capsys, lines, status):
    (tmp_path / "some.jsonl").write_text("\n".join(lines))
    (tmp_path / "README.md").write_text("not a vector")
    assert main([str(tmp_path)]) == status
    out = capsys.readouterr().out
    assert ("unknown form" in out) is ("surprise" in lines)
    assert out.splitlines()[-1].endswith("steps agree")


def test_without_a_directory_there_is_nothing_to_replay(capsys):
    assert main([]) == 2
    assert main(["/nonexistent"]) == 2
    assert "usage" in capsys.readouterr().err
