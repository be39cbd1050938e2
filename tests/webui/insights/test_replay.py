"""Recorded days under other quotas: which records are simulated, and the clients that would be throttled."""

import errno
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.webui.insights.warehouse import event, put_aside, record
from webui.insights import replay
from webui.insights.replay import answer, recorded

DAY = "2026-01-10"
BEFORE, AFTER = "2026-01-09", "2026-01-11"
ALICE = {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 1_000}}
QUESTION: dict[str, Any] = {
    "first": DAY,
    "last": DAY,
    "node": None,
    "cluster": None,
    "now": [],
    "proposed": [ALICE],
    "lines": None,
    "keep_unlisted": False,
}


def lines(root: Path, first: str = DAY, last: str = DAY, node: int | None = 1) -> list[dict[str, Any]]:
    load = recorded(root, date.fromisoformat(first), date.fromisoformat(last), node)
    return [json.loads(line) for line in load.lines()][1:]


def ask(root: Path, **more: Any) -> dict[str, Any]:
    return answer(root, QUESTION | more)


def test_a_limit_below_the_use_holds_and_the_rules_of_now_do_not(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(at, DAY, requests=2, bytes_in=2_000) for at in range(60)])
    result = ask(tmp_path)
    assert result["outcome"] == "simulated"
    assert (result["seconds"], result["clients"], result["throttled_now"], result["throttled_proposed"]) == (
        60,
        1,
        0,
        1,
    )
    (row,) = result["items"]
    assert (row["user"], row["client_id"], row["key"]) == ("alice", "a", "producer_byte_rate")
    assert row["now"]["throttles"] == 0 and row["now"]["rule"] == {} and row["now"]["limit"] is None
    # A thousand bytes a second for a minute, and the request that broke the limit.
    assert (row["offered_bytes"], row["proposed"]["accepted_bytes"]) == (120_000, 61_000)
    assert row["proposed"]["waiting_bytes"] == 59_000
    assert row["proposed"]["rule"] == {"user": "alice"} and row["proposed"]["limit"] == 1_000


def test_the_rules_of_now_are_played_as_well(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(at, DAY, requests=2, bytes_in=2_000) for at in range(60)])
    result = ask(tmp_path, now=[ALICE], proposed=[])
    assert (result["throttled_now"], result["throttled_proposed"]) == (1, 0)


FILE = """
# Kept under version control.
quotas:
- entity: {user: alice}
  limits: {producer_byte_rate: 1000}
"""


def test_the_text_of_a_file_is_played_as_its_rules(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(at, DAY, requests=2, bytes_in=2_000) for at in range(60)])
    assert ask(tmp_path, proposed=None, lines=FILE.split("\n")) == ask(tmp_path)
    assert ask(tmp_path, proposed=None, lines=[json.dumps({"quotas": [ALICE]})]) == ask(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "quotas is empty"),
        ("quotas: [", "quotas is not YAML: line 2"),
        ("rules: []", "quotas line 1: rules: unknown"),
        (FILE.replace("1000", "-1"), "quotas line 4"),
        (FILE.replace("alice", "&a alice"), "anchors and aliases are not supported"),
        (FILE + "- entity: {user: alice}\n  limits: {producer_byte_rate: 5}\n", "is given twice"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    result = ask(tmp_path, proposed=None, lines=text.split("\n"))
    assert result["outcome"] == "refused" and words in result["message"]


@pytest.mark.parametrize(("keep", "throttled"), [(True, 2), (False, 1)])
def test_rules_that_a_file_does_not_list_stay_if_wanted(tmp_path: Path, keep: bool, throttled: int) -> None:
    both = [{"principal": "alice"}, {"principal": "bob", "client_id": "b"}]
    record(
        tmp_path,
        DAY,
        [event(at, DAY, requests=2, bytes_in=2_000, **who) for at in range(60) for who in both],
    )
    bob = {"entity": {"user": "bob"}, "limits": {"producer_byte_rate": 1_000}}
    result = ask(tmp_path, now=[bob], proposed=None, lines=FILE.split("\n"), keep_unlisted=keep)
    assert (result["throttled_now"], result["throttled_proposed"]) == (1, throttled)
    assert (result["throttled_more"], result["throttled_less"]) == (1, 2 - throttled)
    assert [row["user"] for row in result["items"]] == ["alice", "bob"], "those that lose most come first"


def test_a_rule_of_the_file_replaces_the_one_of_now(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(at, DAY, requests=2, bytes_in=2_000) for at in range(60)])
    low = {"entity": {"user": "alice"}, "limits": {"producer_byte_rate": 500}}
    result = ask(tmp_path, now=[low], proposed=None, lines=FILE.split("\n"), keep_unlisted=True)
    assert (result["throttled_more"], result["throttled_less"]) == (0, 1)
    assert result["items"][0]["proposed"]["limit"] == 1_000


def test_a_client_throttled_by_neither_is_only_counted(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY), event(1, DAY, principal="bob", api="FetchConsumer")])
    result = ask(tmp_path, proposed=[])
    assert (result["clients"], result["items"]) == (2, [])


def test_a_limit_that_is_not_simulated_is_reported(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    rule = {"entity": {"user": "alice"}, "limits": {"controller_mutation_rate": 5}}
    assert ask(tmp_path, proposed=[rule])["not_simulated"]


def test_records_are_played_in_the_order_of_time_however_they_lie(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(3, DAY, bytes_in=3), event(1, DAY, bytes_in=1)])
    record(tmp_path, DAY, [event(2, DAY, bytes_in=2), event(3, DAY, bytes_in=4)], first=2)
    assert [line["bytes_in"] for line in lines(tmp_path)] == [1, 2, 3, 4]


def test_an_event_belongs_to_the_day_of_its_own_time(tmp_path: Path) -> None:
    last = 86_400 - 1
    record(tmp_path, DAY, [event(-1, DAY, bytes_in=1), event(0, DAY, bytes_in=2)])
    record(tmp_path, AFTER, [event(last, DAY, bytes_in=3), event(last + 1, DAY, bytes_in=4)], first=2)
    record(tmp_path, BEFORE, [event(5, DAY, bytes_in=5)], first=4)
    assert [line["bytes_in"] for line in lines(tmp_path)] == [2, 5, 3]
    assert [line["bytes_in"] for line in lines(tmp_path, BEFORE, AFTER)] == [1, 2, 5, 3, 4]


def test_events_in_quarantine_or_of_others_are_not_played(tmp_path: Path) -> None:
    several = [event(1, DAY), event(2, DAY, source="others"), b"no json", event(3, DAY, api="Metadata")]
    record(tmp_path, DAY, several)
    record(tmp_path, DAY, [event(4, DAY)], node="2", first=4)
    put_aside(tmp_path, DAY, 2)
    assert len(lines(tmp_path)) == 1


def test_time_begins_with_the_first_request_of_any_client(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(10, DAY, api="Metadata"), event(19, DAY)])
    assert ask(tmp_path)["seconds"] == 10


def test_a_record_in_quarantine_is_one_of_its_cluster(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)], cluster="x")
    put_aside(tmp_path, DAY, 0, cluster="y")
    assert len(lines(tmp_path)) == 1
    put_aside(tmp_path, DAY, 0, cluster="x")
    assert ask(tmp_path)["outcome"] == "empty"


def test_several_clusters_are_not_mixed(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)], cluster="x")
    record(tmp_path, DAY, [event(1, DAY)], first=1)
    assert ask(tmp_path)["clients"] == 1
    record(tmp_path, DAY, [event(1, DAY)], cluster="y")
    result = ask(tmp_path)
    assert result["outcome"] == "clusters" and result["message"].endswith("choose a cluster.")
    for cluster, count in (("x", 1), ("y", 1), ("", 1)):
        assert ask(tmp_path, cluster=cluster)["clients"] == count
    assert ask(tmp_path, cluster="z")["outcome"] == "empty"


def test_of_several_brokers_one_must_be_chosen(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)], node="1")
    record(tmp_path, DAY, [event(1, DAY)], node="12", first=1)
    result = ask(tmp_path)
    assert result["outcome"] == "nodes" and result["message"].endswith("choose one of 1, 12.")
    assert ask(tmp_path, node=12)["clients"] == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"first": BEFORE, "last": BEFORE}, f"No client produced or fetched on {BEFORE}."),
        (
            {"first": "2026-01-01", "last": BEFORE},
            f"No client produced or fetched from 2026-01-01 to {BEFORE}.",
        ),
        *(
            ({"first": day, "last": day}, f"No client produced or fetched on {day}.")
            for day in ("0001-01-01", "9999-12-31")
        ),
        ({"node": 7}, f"No client produced or fetched at node 7 on {DAY}."),
    ],
)
def test_a_day_without_requests_is_reported_to_be_one(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    assert ask(tmp_path, **more) == {"outcome": "empty", "message": words}


def test_without_a_table_there_is_nothing_to_play(tmp_path: Path) -> None:
    assert ask(tmp_path) == {"outcome": "none", "message": "There is no table bronze/events yet."}


def test_a_file_that_is_gone_and_a_log_that_is_damaged_are_reported(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    shutil.rmtree(tmp_path / f"bronze/events/date={DAY}")
    assert ask(tmp_path) == {
        "outcome": "damaged",
        "message": "A file of the table bronze/events is missing or cannot be read.",
    }
    (tmp_path / "bronze/events/_delta_log/00000000000000000000.json").write_text("{")
    assert ask(tmp_path) == {
        "outcome": "damaged",
        "message": "The log of the table bronze/events cannot be read.",
    }


@pytest.mark.parametrize("value", [b"no json", b"[]", b'{"source":"client"}', b"\xff"])
def test_a_record_that_is_no_event_ends_it_with_its_place(tmp_path: Path, value: bytes) -> None:
    record(tmp_path, DAY, [event(1, DAY), value])
    result = ask(tmp_path)
    assert result["outcome"] == "damaged" and "partition 0, offset 1" in result["message"]


@pytest.mark.parametrize(("most", "outcome"), [(4, "simulated"), (3, "simulated"), (2, "too many")])
def test_more_seconds_than_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, outcome: str
) -> None:
    monkeypatch.setattr(replay, "MAX_RECORDS", most)
    record(tmp_path, DAY, [event(at, DAY) for at in range(3)])
    assert ask(tmp_path)["outcome"] == outcome


def test_more_requests_than_can_be_played_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_SIMULATED", 1)
    record(tmp_path, DAY, [event(at, DAY, requests=20, bytes_in=20_000) for at in range(9)])
    assert ask(tmp_path)["outcome"] == "too many"


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(replay, "TemporaryDirectory", full)
    record(tmp_path, DAY, [event(1, DAY)])
    result = ask(tmp_path)
    assert result["outcome"] == "no disk space" and "No space left on device" in result["message"]


def test_a_rule_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    result = ask(tmp_path, proposed=[{"entity": {"user": "alice"}, "limits": {"producer_byte_rat": 1}}])
    assert result["outcome"] == "refused" and "producer_byte_rat" in result["message"]


def test_the_program_answers_on_its_output(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    command = [sys.executable, "-m", "webui.insights.replay", str(tmp_path)]
    ended = subprocess.run(command, input=json.dumps(QUESTION).encode(), capture_output=True, check=True)
    assert json.loads(ended.stdout) == ask(tmp_path)


def test_ended_in_the_middle_it_leaves_no_load_behind(tmp_path: Path) -> None:
    record(tmp_path, DAY, [event(1, DAY)])
    loads = tmp_path / "loads"
    loads.mkdir()
    # Stops where both loads are written and nothing is played yet.
    program = (
        "import time, webui.insights.replay as r; r.run_scenario = lambda *_: (print('there', flush=True), "
        "time.sleep(3600)); r.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(loads)},
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(QUESTION).encode())
        process.stdin.close()
        assert process.stdout.readline() == b"there\n"
        assert list(loads.iterdir())
        process.terminate()
        assert process.wait(10) == 1
    assert not list(loads.iterdir())
