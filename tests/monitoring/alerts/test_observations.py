"""What rules are compared with."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.rows.alerts import Labels
from broker.controller.rows.broker import DiskRow
from broker.controller.rows.topics import GroupRow
from broker.metadata.alerts import AlertCondition, AlertRule
from broker.monitoring.alerts.evaluation import AtLeast
from broker.monitoring.alerts.observations import Values, disk_use, ignoring, lag, matching, throttled
from broker.views import disks
from broker.views.disks import disk_rows
from tests.webui.rows import throttled as throttled_row

GREEDY = (("client_id", "greedy"), ("user", "ann"))


def test_the_longest_throttle_of_a_client_counts_by_kind() -> None:
    rows = [
        throttled_row("greedy", principal="ann", throttle_ms=300),
        None,
        throttled_row("greedy", principal="ann", throttle_ms=900),
        replace(throttled_row("greedy", principal="ann", throttle_ms=9_000), gateway="g2"),
        throttled_row("", principal="", address="10.0.0.7", throttle_ms=50),
    ]
    found = run_through(throttled(iter(rows)))
    kind = str(rows[0].quota_type)  # type: ignore[union-attr]
    assert found == {
        (*GREEDY, ("quota_type", kind)): 900.0,
        (("address", "10.0.0.7"), ("quota_type", kind)): 50.0,
    }


@pytest.mark.parametrize(("obeys", "expected"), [(False, {GREEDY: 2.0}), (True, {}), (None, {})])
def test_connections_that_do_not_wait_are_counted(obeys: bool | None, expected: dict[Labels, float]) -> None:
    row = replace(throttled_row("greedy", principal="ann"), obeys=obeys)
    assert run_through(ignoring([row, row])) == expected


def test_a_group_whose_lag_is_not_known_has_no_value() -> None:
    rows = [GroupRow("reports", "Stable", "consumer", 1, 7), GroupRow("new", "Empty", "", 0, None)]
    assert run_through(lag(iter(rows))) == {(("group", "reports"),): 7.0}


def test_a_lag_that_is_known_in_part_is_at_least_that_of_the_known_partitions() -> None:
    rows = [
        GroupRow("parts", "Stable", "consumer", 1, 7, lag_is_known=False),
        GroupRow("unread", "Stable", "consumer", 1, None, lag_is_known=False),
    ]
    found = run_through(lag(iter(rows)))
    assert found == {(("group", "parts"),): 7.0, (("group", "unread"),): 0.0}
    assert all(isinstance(each, AtLeast) for each in found.values())
    assert found.others == 0.0


def test_a_pattern_keeps_the_value_of_what_is_not_there() -> None:
    values = Values({(("group", "orders"),): 1.0})
    values.others = AtLeast(0)
    rule = AlertRule(AlertCondition.LAG, 0.0, match="none")
    found = run_through(matching(rule, values))
    assert not found and found.others is values.others


def test_a_disk_is_as_full_as_df_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 100 blocks 25 are free, of which users get 20.
    volume = os.statvfs_result((4096, 4096, 100, 25, 20, 0, 0, 0, 0, 255))
    monkeypatch.setattr(disks.os, "statvfs", lambda _path: volume)
    assert disk_use([str(tmp_path)]) == {(("directory", str(tmp_path)),): 100 * (75 / 95)}
    assert disk_rows(["/a"]) == [DiskRow("/a", 409_600, 81_920, 75 / 95)]


def test_a_disk_that_cannot_be_asked_has_no_value(tmp_path: Path) -> None:
    assert disk_use([str(tmp_path / "missing")]) == {}
    ((_, used),) = disk_use([str(tmp_path)]).items()
    assert 0 <= used <= 100


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["orders-1", "orders-2", "re[ports]"]),
        ("orders-*", ["orders-1", "orders-2"]),
        ("orders-?", ["orders-1", "orders-2"]),
        ("*1", ["orders-1"]),
        ("orders", []),
        ("re[[]ports]", ["re[ports]"]),
        ("*" + "a*" * 60 + "b", []),
    ],
)
def test_a_pattern_selects_names(pattern: str, expected: list[str]) -> None:
    values = Values({(("group", name),): 1.0 for name in ("orders-1", "orders-2", "re[ports]")})
    rule = AlertRule(AlertCondition.LAG, 0.0, match=pattern)
    found = run_through(matching(rule, values))
    assert [labels[0][1] for labels in found] == expected


def test_each_name_is_matched_in_a_step_of_its_own() -> None:
    """Python's engine took 64 ms for one of these names."""
    labels = (("client_id", "a" * 32_767), ("user", "b" * 32_767), ("quota_type", "a" * 32_767))
    values = Values({(("number", str(number)), *labels): 1.0 for number in range(50)})
    rule = AlertRule(AlertCondition.THROTTLED, 0.0, match="*" + "?" * 140 + "b")
    assert sum(1 for _ in matching(rule, values)) == 1 + 50 * (1 + len(labels))
    assert run_through(matching(rule, values)) == {}


def test_a_stored_pattern_that_is_refused_now_selects_no_name() -> None:
    rule = AlertRule(AlertCondition.LAG, 0.0, match="?" * 256)
    assert run_through(matching(rule, Values({(("group", "a" * 256),): 1.0}))) == {}


def test_a_long_listing_is_read_in_steps() -> None:
    def rows() -> Iterator[GroupRow]:
        for number in range(100):
            yield GroupRow(f"g{number}", "Stable", "consumer", 1, number)

    assert sum(1 for _ in lag(rows())) == 100
