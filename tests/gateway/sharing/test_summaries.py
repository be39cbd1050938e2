"""The last summaries of the gateways, and when one is lost."""

from msgspec.structs import replace

from broker.common.slices import Steps, run_through
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.table import MAX_GATEWAYS
from broker.gateway.sharing.views import KEPT_MS, Summaries
from tests.gateway.sharing.test_client_summary import SUMMARY as CLIENTS
from tests.gateway.sharing.test_summary import CHANNEL, SUMMARY

READ_MS = 10_000


def measured() -> Steps[Summary]:
    yield
    return SUMMARY


def summaries(*names: str, at_ms: int = READ_MS) -> Summaries:
    made = Summaries(measured, keeps_clients=True)
    for name in names:
        made.receive(replace(SUMMARY, gateway=name), at_ms)
    return made


def test_the_measured_summary_is_kept() -> None:
    made = summaries()
    assert made.own is None
    assert run_through(made.measure()) is SUMMARY
    assert made.own is SUMMARY


def test_the_last_one_of_each_gateway_counts() -> None:
    made = summaries("two", "three")
    made.receive(replace(SUMMARY, gateway="two", address="elsewhere:9092"), READ_MS + 1)
    found = made.others(READ_MS + 1)
    assert {name: each.address for name, each in found.items()} == {
        "three": SUMMARY.address,
        "two": "elsewhere:9092",
    }


def test_a_gateway_is_lost_after_five_seconds() -> None:
    made = summaries("two")
    for now_ms, names in ((READ_MS + 4_999, ["two"]), (READ_MS + 5_000, ["two"]), (READ_MS + 5_001, [])):
        assert list(made.others(now_ms)) == names
        assert len(list(made.throttled(now_ms))) == len(names)


def test_a_gateway_that_stops_is_gone_at_once() -> None:
    made = summaries("two", "three")
    made.forget("two")
    made.forget("unknown")
    assert list(made.others(READ_MS)) == ["three"]


def test_lost_gateways_are_not_kept() -> None:
    made = summaries("two", "three")
    made.receive(replace(SUMMARY, gateway="four"), READ_MS + KEPT_MS)
    assert len(made._summaries) == 3
    made.receive(replace(SUMMARY, gateway="four"), READ_MS + KEPT_MS + 1)
    assert len(made._summaries) == 1


def test_the_remaining_time_counts_down_until_the_next_summary() -> None:
    made = summaries()
    made.receive(replace(SUMMARY, channels=(replace(CHANNEL, remaining_ms=700, since_ms=100),)), READ_MS)
    found = []
    for passed_ms in (0, 699, 700, 701):
        (row,) = made.throttled(READ_MS + passed_ms)
        found.append((row.remaining_ms, row.since_ms))
    assert found == [(700, 100), (1, 799), (0, 800), (0, 801)]
    made.receive(replace(SUMMARY, channels=()), READ_MS + 1_000)
    assert list(made.throttled(READ_MS + 1_000)) == []


def test_clients_are_kept_like_summaries() -> None:
    made = summaries("two")
    assert made.measure_clients is None
    made.receive_clients(replace(CLIENTS, gateway="two"), READ_MS)
    made.receive_clients(replace(CLIENTS, gateway="three"), READ_MS + 1)
    assert list(made.clients(READ_MS + KEPT_MS)) == ["two", "three"]
    assert list(made.clients(READ_MS + KEPT_MS + 1)) == ["three"]
    assert list(made.others(READ_MS)) == ["two"]
    made.forget("three")
    assert dict(made.clients(READ_MS + 1)) == {"two": replace(CLIENTS, gateway="two")}


def test_no_more_gateways_are_kept_than_may_share_limits() -> None:
    made = summaries(*map(str, range(MAX_GATEWAYS + 1)))
    assert list(made.others(READ_MS)) == [str(number) for number in range(1, MAX_GATEWAYS + 1)]
