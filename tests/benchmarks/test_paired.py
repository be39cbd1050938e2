"""The ratio of paired measurements over several starts, its spread, and what is compared."""

import statistics
import subprocess

import click
import pytest

from benchmarks.paired import (
    HERE,
    LOAD_CLIENT_ID,
    Start,
    Turn,
    checked_out,
    event_count,
    limits_of,
    program_of,
    ratio,
    row,
)


def test_each_start_counts_once_by_the_median_of_its_pairs() -> None:
    assert ratio([[0.97, 0.97, 4.0], [0.97], [0.97, 0.1, 0.97]]) == (0.97, 0.0, 0.97, 0.97)


def test_the_error_falls_with_the_root_of_the_number_of_starts() -> None:
    starts = [[0.9], [1.0], [1.0], [1.1]]
    few, many = ratio(starts), ratio(starts * 100)
    assert few.median == many.median == 1.0
    assert few.error / many.error == pytest.approx(10, rel=0.3)


def test_one_start_has_no_error_to_report() -> None:
    with pytest.raises(statistics.StatisticsError, match="two data points"):
        ratio([[1.0, 2.0]])


def test_a_row_has_each_figure_with_its_spread_and_a_dash_for_what_is_not_counted() -> None:
    slow = Start(old=[Turn(100, 10, None)] * 2, new=[Turn(90, 12, None)] * 2)
    fast = Start(old=[Turn(100, 10, None)] * 2, new=[Turn(110, 8, None)] * 2)
    assert row("load", [slow, fast, slow, fast]) == (
        "| load | 1.000 ± 0.093 (0.90-1.10) | 1.000 ± 0.186 (0.80-1.20) | - |"
    )


def test_pairs_without_a_count_do_not_count() -> None:
    start = Start(
        old=[Turn(1, 1, 1000), Turn(1, 1, None), Turn(1, 1, 1000)],
        new=[Turn(1, 1, 900), Turn(1, 1, 900), Turn(1, 1, None)],
    )
    assert start.ratios("instructions") == [0.9]


@pytest.mark.parametrize(
    ("report", "count"),
    [
        ("# started on Mon Nov 23\n\n123456789,,instructions:u,1000000,100.00,,\n", 123456789),
        ("<not supported>,,instructions,0,100.00,,\n", None),
        ("", None),
    ],
)
def test_instructions_are_read_from_perf_where_it_counts_them(report: str, count: int | None) -> None:
    assert event_count(report) == count


def test_a_commit_is_checked_out_for_the_comparison_and_runs_with_its_own_sources() -> None:
    head = _git("rev-parse", "HEAD")
    with checked_out("HEAD") as checkout:
        assert _git("-C", str(checkout), "rev-parse", "HEAD") == head
        *python, _module, _name = program_of(checkout)
        source = subprocess.check_output([*python, "-c", "import broker; print(broker.__file__)"], text=True)
        assert source.strip() == str(checkout / "broker" / "__init__.py")
    assert not checkout.exists()
    assert str(checkout) not in _git("worktree", "list")


def test_a_checkout_is_compared_as_it_stands() -> None:
    with checked_out(str(HERE)) as checkout:
        assert checkout == HERE


def test_a_name_of_neither_a_commit_nor_a_checkout_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="neither a checkout nor a commit"), checked_out("no-such"):
        pass


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=HERE, text=True).strip()


@pytest.mark.parametrize("clients", [1, 2, 1_000])
def test_so_many_clients_are_limited_with_the_one_of_the_load(clients: int) -> None:
    entries = limits_of(clients).entries
    names = {entry.entity[0].entity_name for entry in entries}
    assert len(entries) == len(names) == clients
    assert LOAD_CLIENT_ID in names
    assert {op.key for op in entries[-1].ops} == {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
    }


def test_the_load_program_has_the_client_id_that_is_limited() -> None:
    assert f'put_string(frame, "{LOAD_CLIENT_ID}");' in (HERE / "benchmarks/load/request.c").read_text()
