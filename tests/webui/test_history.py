"""The last quarter of an hour, a sample a second."""

from tests.webui.rows import figures
from webui.history import KEPT, History, sample_json


def test_the_first_figures_have_nothing_to_be_compared_with() -> None:
    history = History()
    assert history.add(figures(), 1_000) is None and history.last is None
    assert history.columns(10)["at_ms"] == []


def test_a_rate_is_the_difference_over_the_time_that_passed() -> None:
    history = History()
    history.add(figures(bytes_in_total=1_000, bytes_out_total=0, requests_total=5), 1_000)
    sample = history.add(
        figures(bytes_in_total=4_000, bytes_out_total=500, requests_total=6, throttled=2), 3_000
    )
    assert sample is not None
    assert (sample.bytes_in, sample.bytes_out, sample.requests, sample.throttled) == (1_500.0, 250.0, 0.5, 2)


def test_a_clock_that_steps_back_gives_no_sample() -> None:
    history = History()
    history.add(figures(), 2_000)
    assert history.add(figures(), 2_000) is None
    assert history.add(figures(), 1_000) is None
    assert history.add(figures(), 2_000) is not None


def test_the_oldest_samples_make_room() -> None:
    history = History()
    for second in range(KEPT + 3):
        history.add(figures(bytes_in_total=second), second * 1_000)
    columns = history.columns(KEPT)
    assert len(columns["at_ms"]) == KEPT
    assert columns["at_ms"][0] == 3_000 and columns["at_ms"][-1] == (KEPT + 2) * 1_000


def test_only_so_many_are_answered_the_newest() -> None:
    history = History()
    for second in range(5):
        history.add(figures(connections=second), second * 1_000)
    assert history.columns(2)["connections"] == [3, 4]
    assert history.columns(0)["connections"] == []
    assert history.columns(99)["connections"] == [1, 2, 3, 4]


def test_a_sample_in_json_has_the_names_of_the_columns() -> None:
    history = History()
    history.add(figures(), 0)
    sample = sample_json(history.add(figures(), 1_000))
    assert sample is not None and sample.keys() == history.columns(1).keys()
    assert sample_json(None) is None
