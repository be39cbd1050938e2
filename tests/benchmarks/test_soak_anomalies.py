"""An error is explained by its text and by a fault that was in progress, or not at all."""

from typing import Final

import pytest

from benchmarks.soak.anomalies import SETTLED_S, Anomalies, Rule

RULES: Final = (Rule("refused", "it was away", ("kill",)), Rule("rebalance", "members come and go"))
NOW: Final = 1_000.0


def why(anomalies: Anomalies) -> list[str]:
    return [each.why for each in anomalies.found()]


def test_without_a_fault_an_error_is_unexplained() -> None:
    anomalies = Anomalies(RULES)
    anomalies.add("client", "connection refused", NOW)
    assert why(anomalies) == [""]


@pytest.mark.parametrize(
    ("after", "explained"),
    [(-0.1, False), (0, True), (5 + SETTLED_S - 0.1, True), (5 + SETTLED_S, False)],
)
def test_a_fault_explains_errors_until_its_clients_have_settled(after: float, explained: bool) -> None:
    anomalies = Anomalies(RULES)
    anomalies.begin("kill", NOW).ended = NOW + 5
    anomalies.add("client", "connection refused", NOW + after)
    assert why(anomalies) == ["it was away" if explained else ""]


def test_a_fault_in_progress_explains_for_as_long_as_it_lasts() -> None:
    anomalies = Anomalies(RULES)
    anomalies.begin("kill", NOW)
    anomalies.add("client", "connection refused", NOW + 10_000)
    assert why(anomalies) == ["it was away"]


@pytest.mark.parametrize(
    ("source", "after", "explained"), [("slow", 99.9, True), ("slow", 100.0, False), ("other", 99.9, False)]
)
def test_a_rule_may_be_for_one_source_and_for_longer(source: str, after: float, explained: bool) -> None:
    rule = Rule("refused", "it waited", ("kill",), sources=("slow",), settled_s=100.0)
    anomalies = Anomalies([rule])
    anomalies.begin("kill", 0.0).ended = 10.0
    anomalies.add(source, "refused", 10.0 + after)
    assert bool(anomalies.unexplained()) is not explained


def test_another_fault_or_another_text_explains_nothing() -> None:
    anomalies = Anomalies(RULES)
    anomalies.begin("disk full", NOW)
    anomalies.add("client", "connection refused", NOW)
    anomalies.begin("kill", NOW)
    anomalies.add("client", "Traceback", NOW)
    assert why(anomalies) == ["", ""]


def test_texts_that_differ_in_numbers_are_counted_together_unexplained_first() -> None:
    anomalies = Anomalies(RULES)
    anomalies.add("client", "rebalance of 1", NOW)
    anomalies.add("client", "rebalance of 2", NOW + 1)
    anomalies.add("client", "error 7", NOW + 2)
    assert [(each.text, each.count, each.first) for each in anomalies.found()] == [
        ("error 7", 1, NOW + 2),
        ("rebalance of 1", 2, NOW),
    ]
    assert [each.text for each in anomalies.unexplained()] == ["error 7"]
