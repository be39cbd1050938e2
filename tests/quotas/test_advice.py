"""Warnings about valid limits that never take effect."""

import pytest

from broker.quotas.advice import warnings_about


@pytest.mark.parametrize(("percent", "told"), [(99.9, 0), (100.0, 0), (100.1, 1), (800.0, 1)])
def test_more_request_time_than_one_thread_has_is_told(percent: float, told: int) -> None:
    assert len(warnings_about([("request_percentage", percent)])) == told


def test_the_sentence_names_key_value_and_what_can_be_reached() -> None:
    (sentence,) = warnings_about([("request_percentage", 800.0)])
    assert sentence == (
        "request_percentage=800 never takes effect: one thread serves all requests, "
        "so no client can use more than 100"
    )


def test_a_removal_and_other_keys_are_not_told() -> None:
    assert warnings_about([("request_percentage", None), ("producer_byte_rate", 800.0)]) == ()
