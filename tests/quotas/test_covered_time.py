"""The time that intervals cover."""

from broker.quotas.table import CoveredTime


def test_overlapping_intervals_cover_their_time_once():
    covered = CoveredTime()
    for duration_ms, now_ms, after_ms in [
        (1_000, 5_000, 1_000),  # 5.0 to 6.0
        (1_000, 5_400, 1_400),  # to 6.4
        (100, 5_500, 1_400),  # within
        (500, 6_400, 1_900),  # from its very end
        (500, 10_000, 2_400),  # much later
    ]:
        covered.add(duration_ms, now_ms)
        assert covered.at(now_ms + 60_000) == after_ms


def test_an_interval_counts_as_it_passes():
    covered = CoveredTime()
    assert covered.at(5_000) == 0
    covered.add(67_000, 5_000)
    passed = [5_000, 5_001, 71_999, 72_000, 72_001]
    assert [covered.at(now_ms) for now_ms in passed] == [0, 1, 66_999, 67_000, 67_000]


def test_it_never_grows_faster_than_time():
    covered = CoveredTime()
    for now_ms in range(0, 10_000, 100):
        covered.add(2_000, now_ms)
        assert covered.at(now_ms) == now_ms
