"""The last summaries of the gateways, and when one is lost."""

from msgspec.structs import replace

from broker.common.steps import Steps, finished
from broker.gateway.sharing.last_heard import KEPT_MS
from broker.gateway.sharing.summaries import Summaries
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.table import MAX_GATEWAYS
from tests.gateway.sharing.test_client_summary import SUMMARY as CLIENTS
from tests.gateway.sharing.test_summary import CHANNEL, SUMMARY

HEARD_MS = 10_000


def measured() -> Steps[Summary]:
    yield
    return SUMMARY


def summaries(*names: str, at_ms: int = HEARD_MS) -> Summaries:
    made = Summaries(measured, hears=True)
    for name in names:
        made.hear(replace(SUMMARY, gateway=name), at_ms)
    return made


def test_the_measured_summary_is_kept() -> None:
    made = summaries()
    assert made.own is None
    assert finished(made.measure()) is SUMMARY
    assert made.own is SUMMARY


def test_the_last_one_of_each_gateway_counts() -> None:
    made = summaries("two", "three")
    made.hear(replace(SUMMARY, gateway="two", address="elsewhere:9092"), HEARD_MS + 1)
    found = made.others(HEARD_MS + 1)
    assert {name: each.address for name, each in found.items()} == {
        "three": SUMMARY.address,
        "two": "elsewhere:9092",
    }


def test_a_gateway_is_lost_after_five_seconds() -> None:
    made = summaries("two")
    for now_ms, names in ((HEARD_MS + 4_999, ["two"]), (HEARD_MS + 5_000, ["two"]), (HEARD_MS + 5_001, [])):
        assert list(made.others(now_ms)) == names
        assert len(list(made.throttled(now_ms))) == len(names)


def test_a_gateway_that_stops_is_gone_at_once() -> None:
    made = summaries("two", "three")
    made.forget("two")
    made.forget("unknown")
    assert list(made.others(HEARD_MS)) == ["three"]


def test_lost_gateways_are_not_kept() -> None:
    made = summaries("two", "three")
    made.hear(replace(SUMMARY, gateway="four"), HEARD_MS + KEPT_MS)
    assert len(made._heard) == 3
    made.hear(replace(SUMMARY, gateway="four"), HEARD_MS + KEPT_MS + 1)
    assert len(made._heard) == 1


def test_the_remaining_time_counts_down_until_the_next_summary() -> None:
    made = summaries()
    made.hear(replace(SUMMARY, channels=(replace(CHANNEL, remaining_ms=700, since_ms=100),)), HEARD_MS)
    found = []
    for passed_ms in (0, 699, 700, 701):
        (row,) = made.throttled(HEARD_MS + passed_ms)
        found.append((row.remaining_ms, row.since_ms))
    assert found == [(700, 100), (1, 799), (0, 800), (0, 801)]
    made.hear(replace(SUMMARY, channels=()), HEARD_MS + 1_000)
    assert list(made.throttled(HEARD_MS + 1_000)) == []


def test_clients_are_kept_like_summaries() -> None:
    made = summaries("two")
    assert made.measure_clients is None
    made.hear_clients(replace(CLIENTS, gateway="two"), HEARD_MS)
    made.hear_clients(replace(CLIENTS, gateway="three"), HEARD_MS + 1)
    assert list(made.clients(HEARD_MS + KEPT_MS)) == ["two", "three"]
    assert list(made.clients(HEARD_MS + KEPT_MS + 1)) == ["three"]
    assert list(made.others(HEARD_MS)) == ["two"]
    made.forget("three")
    assert dict(made.clients(HEARD_MS + 1)) == {"two": replace(CLIENTS, gateway="two")}


def test_no_more_gateways_are_kept_than_may_share_limits() -> None:
    made = summaries(*map(str, range(MAX_GATEWAYS + 1)))
    assert list(made.others(HEARD_MS)) == [str(number) for number in range(1, MAX_GATEWAYS + 1)]
