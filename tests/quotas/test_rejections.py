"""A burst of refusals is one event with its count."""

from broker.clock import BASE_MS
from broker.quotas.rejections import BURST_MS, MAX_BURSTS, OTHERS, Burst, Rejections


def test_a_burst_is_told_about_once_with_address_rule_and_count() -> None:
    rejections = Rejections()
    for at in range(57):
        rejections.note("EXTERNAL", "10.0.0.7", "max.connections.per.ip", 5, BASE_MS + at)
    assert rejections.next_deadline() == BASE_MS + BURST_MS
    assert rejections.due(BASE_MS + BURST_MS - 1) == []
    burst = Burst("EXTERNAL", "10.0.0.7", "max.connections.per.ip", 5, BASE_MS + BURST_MS, 57)
    assert rejections.due(BASE_MS + BURST_MS) == [burst]
    assert (rejections.due(BASE_MS + 9_000), rejections.next_deadline()) == ([], None)


def test_listener_address_and_rule_tell_bursts_apart_the_oldest_is_due_first() -> None:
    rejections = Rejections()
    for at, (listener, address, rule) in enumerate(
        [("A", "10.0.0.1", "r"), ("A", "10.0.0.2", "r"), ("B", "10.0.0.1", "r"), ("A", "10.0.0.1", "s")]
    ):
        rejections.note(listener, address, rule, 1, BASE_MS + at)
    assert rejections.next_deadline() == BASE_MS + BURST_MS
    assert [each.count for each in rejections.due(BASE_MS + BURST_MS + 2)] == [1, 1, 1]
    assert rejections.next_deadline() == BASE_MS + BURST_MS + 3


def test_more_addresses_than_a_number_are_counted_together() -> None:
    rejections = Rejections()
    for number in range(MAX_BURSTS + 20):
        rejections.note("A", f"10.0.0.{number}", "r", 1, BASE_MS)
    bursts = rejections.due(BASE_MS + BURST_MS)
    assert len(bursts) == MAX_BURSTS + 1
    assert (bursts[-1].address, bursts[-1].count) == (OTHERS, 20)
