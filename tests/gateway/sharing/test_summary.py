"""Summaries as records."""

import json
import time
from math import inf, nan

import pytest
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.config.sections.gateway import NodeAddresses
from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.upstream import GatewayTraffic
from broker.gateway.sharing.report import MAX_COUNT, UnreadableReport, read_report
from broker.gateway.sharing.summary import (
    MAX_BYTES,
    MAX_CHANNELS,
    MAX_LISTENERS,
    MAX_NAME,
    MAX_READ,
    MAX_USES,
    ListenerNodes,
    Summary,
    key_of,
    read_summary,
    write_summary,
)
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.remote_use import Clients, SensorUse
from tests.support.machine_speed import PASS_S, slowness

TRAFFIC = GatewayTraffic(1_200, 3, 81_000, 9_000, 77, 250_000.0, 1_000.5, 310.5)
CHANNEL = ThrottledRow(
    connection_id="127.0.0.1:9092-10.0.0.7:40000-0-0",
    client_id="app",
    principal="User:alice",
    address="10.0.0.7",
    quota_type=QuotaKind.PRODUCE,
    entity=(("user", "alice"), ("client-id", None)),
    observed=3_300_000.0,
    bound=1_000_000.0,
    throttle_ms=2_300,
    remaining_ms=1_700,
    since_ms=600,
    times=4,
    obeys=True,
    tags=(("tenant", "a"),),
    gateway="g1-5f0c",
)
USE = SensorUse("producer_byte_rate", Entity("alice", DEFAULT), ("alice", "app"), 250_000.0, 3)
NODES = (
    ListenerNodes("EXTERNAL", "SASL_SSL", NodeAddresses("gateway-1.example", 31_000, 31_099)),
    ListenerNodes("NAMES", "SSL", NodeAddresses("broker-$(nodeId).example", 9093, 9093)),
)
SUMMARY = Summary("g1-5f0c", "gateway-1.example:9092", TRAFFIC, (CHANNEL,), (USE,), 4, NODES)
TEXT = (
    '{"version":2,"gateway":"g1-5f0c","address":"gateway-1.example:9092","connections":1200,"throttled":3,'
    '"bytes_in":81000,"bytes_out":9000,"requests":77,"bytes_in_per_s":250000.0,"bytes_out_per_s":1000.5,'
    '"requests_per_s":310.5,"channels":[{"connection_id":"127.0.0.1:9092-10.0.0.7:40000-0-0",'
    '"client_id":"app","principal":"User:alice","address":"10.0.0.7","quota":"produce",'
    '"entity":[["user","alice"],["client-id",null]],"tags":[["tenant","a"]],"observed":3300000.0,'
    '"bound":1000000.0,"throttle_ms":2300,"remaining_ms":1700,"since_ms":600,"times":4,"obeys":true}],'
    '"uses":[["producer_byte_rate",[["user","alice"],["client-id",null]],"alice","app",250000.0,3]],'
    '"unlisted_uses":4,"nodes":[["EXTERNAL","SASL_SSL","gateway-1.example:31000-31099"],'
    '["NAMES","SSL","broker-$(nodeId).example:9093"]],"draining":false}'
)


def channels(*rows: ThrottledRow) -> tuple[ThrottledRow, ...]:
    return read_summary(write_summary(replace(SUMMARY, channels=rows))).channels


def test_a_summary_is_the_documented_json() -> None:
    assert write_summary(SUMMARY).decode() == TEXT
    assert read_summary(TEXT.encode()) == SUMMARY


def test_a_gateway_that_knows_only_reports_skips_it() -> None:
    with pytest.raises(UnreadableReport, match="version 2"):
        run_through(read_report(TEXT.encode()))


def test_its_key_is_not_that_of_the_report() -> None:
    assert key_of("g1-5f0c") == b"summary g1-5f0c"


@pytest.mark.parametrize("obeys", [None, True, False])
@pytest.mark.parametrize("kind", QuotaKind)
def test_every_kind_of_throttle_is_read_as_it_was_written(kind: QuotaKind, obeys: bool | None) -> None:
    row = replace(CHANNEL, quota_type=kind, entity=(), tags=(), obeys=obeys, client_id='"\n')
    assert channels(row) == (row,)


def test_an_unknown_rate_stays_unknown() -> None:
    (row,) = channels(replace(CHANNEL, observed=nan))
    assert row.observed != row.observed


def test_a_channel_without_a_limit_is_left_out() -> None:
    assert channels(replace(CHANNEL, bound=inf), CHANNEL) == (CHANNEL,)


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (0, 0),
        (MAX_CHANNELS - 1, MAX_CHANNELS - 1),
        (MAX_CHANNELS, MAX_CHANNELS),
        (MAX_CHANNELS + 1, MAX_CHANNELS),
    ],
)
def test_the_number_of_channels_is_bounded(count: int, written: int) -> None:
    rows = [replace(CHANNEL, times=number) for number in range(count)]
    assert [row.times for row in channels(*rows)] == list(range(written))


def test_more_channels_of_a_gateway_are_not_read() -> None:
    found = json.loads(TEXT)
    found["channels"] *= MAX_CHANNELS + 1
    assert len(read_summary(json.dumps(found).encode()).channels) == MAX_CHANNELS


@pytest.mark.parametrize(
    ("length", "shown"), [(MAX_NAME - 1, MAX_NAME - 1), (MAX_NAME, MAX_NAME), (MAX_NAME + 1, MAX_NAME)]
)
def test_long_names_are_cut(length: int, shown: int) -> None:
    name = "n" * length
    (row,) = channels(replace(CHANNEL, client_id=name, principal=name, tags=((name, name),)))
    wanted = name if length <= MAX_NAME else "n" * (MAX_NAME - 1) + "…"
    assert len(wanted) == shown
    assert (row.client_id, row.principal, row.tags) == (wanted, wanted, ((wanted, wanted),))


@pytest.mark.parametrize(("more", "written"), [(-1, 2), (0, 2), (1, 1)])
def test_the_bytes_of_channels_are_bounded(more: int, written: int) -> None:
    one = TEXT.index(',"uses"') - TEXT.index("[{") - 2
    assert TEXT[TEXT.index("[{") + 1 :][:one].endswith('"obeys":true}')
    # Two of them, each with the character behind it.
    filler = "e" * (MAX_BYTES - 2 * (one + 1) + len("alice") + more)
    large = replace(CHANNEL, entity=(("user", filler), ("client-id", None)))
    assert len(channels(CHANNEL, large)) == written


@pytest.mark.parametrize(
    ("count", "written"),
    [(0, 0), (MAX_USES - 1, MAX_USES - 1), (MAX_USES, MAX_USES), (MAX_USES + 1, MAX_USES)],
)
def test_the_number_of_uses_is_bounded_and_the_others_are_counted(count: int, written: int) -> None:
    uses = tuple(replace(USE, throttled=number) for number in range(count))
    found = read_summary(write_summary(replace(SUMMARY, uses=uses)))
    assert found.uses == uses[:written]
    assert found.unlisted_uses == 4 + count - written


def test_more_uses_of_a_gateway_are_not_read() -> None:
    found = json.loads(TEXT)
    found["uses"] *= MAX_USES + 1
    assert len(read_summary(json.dumps(found).encode()).uses) == MAX_USES


@pytest.mark.parametrize("clients", [(None, None), ("a", None), (None, "a"), ("", "")])
def test_uses_of_every_kind_of_rule_are_read_as_they_were_written(clients: Clients) -> None:
    for rule in (Entity("alice"), Entity(client_id=DEFAULT), Entity(ip="10.0.0.1"), Entity(ip=DEFAULT)):
        use = replace(USE, rule=rule, clients=clients)
        assert read_summary(write_summary(replace(SUMMARY, uses=(use,)))).uses == (use,)


@pytest.mark.parametrize(("length", "written"), [(MAX_NAME - 1, 1), (MAX_NAME, 1), (MAX_NAME + 1, 0)])
def test_a_use_of_a_long_name_is_counted_only(length: int, written: int) -> None:
    """A name that is cut would be another client's."""
    use = replace(USE, clients=("alice", "n" * length))
    found = read_summary(write_summary(replace(SUMMARY, uses=(use,))))
    assert (found.uses, found.unlisted_uses) == ((use,) * written, 5 - written)


@pytest.mark.parametrize(("more", "written"), [(-1, 2), (0, 2), (1, 1)])
def test_the_bytes_of_uses_are_bounded(more: int, written: int) -> None:
    one = TEXT.index(',"unlisted_uses') - TEXT.index('"uses":[') - len('"uses":[') - 1
    filler = "e" * (MAX_BYTES - 2 * (one + 1) + len("alice") + more)
    uses = (USE, replace(USE, rule=Entity(filler, DEFAULT)))
    found = read_summary(write_summary(replace(SUMMARY, uses=uses)))
    assert (len(found.uses), found.unlisted_uses) == (written, 6 - written)


def test_a_summary_without_uses_is_read() -> None:
    found = json.loads(TEXT)
    del found["uses"], found["unlisted_uses"]
    assert read_summary(json.dumps(found).encode()) == replace(SUMMARY, uses=(), unlisted_uses=0)


def test_no_client_can_make_a_summary_too_large_for_a_topic() -> None:
    name = "\0" * 32_767
    rows = [replace(CHANNEL, client_id=name, principal=name, tags=((name, name),))] * MAX_CHANNELS
    written = write_summary(replace(SUMMARY, channels=tuple(rows)))
    assert len(written) < MAX_BYTES + 1_200
    assert 1 < len(read_summary(written).channels) < MAX_CHANNELS


def test_a_name_that_is_no_unicode_is_written_without_it() -> None:
    (row,) = channels(replace(CHANNEL, client_id="a\ud800b"))
    assert row.client_id == "a?b"


def test_fields_that_a_later_version_adds_are_ignored() -> None:
    found = json.loads(TEXT)
    found["more"] = found["channels"][0]["more"] = 1
    assert read_summary(json.dumps(found).encode()) == SUMMARY


def test_the_largest_numbers_are_read() -> None:
    text = TEXT.replace('"connections":1200', f'"connections":{MAX_COUNT - 1}').replace("310.5", "1e300")
    traffic = read_summary(text.encode()).traffic
    assert (traffic.connections, traffic.requests_per_s) == (MAX_COUNT - 1, 1e300)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"1",
        b"[" * 100_000,
        *(
            TEXT.replace(old, new).encode()
            for old, new in (
                ('"version":2', '"version":1'),
                ('"version":2', '"version":3'),
                ('"unlisted_uses":4', '"unlisted_uses":-4'),
                ('"app",250000.0,3]', '"app",250000.0]'),
                ('"app",250000.0,3]', '"app",-1.0,3]'),
                ('"app",250000.0,3]', "7,250000.0,3]"),
                ('["producer_byte_rate"', "[7"),
                ('[["user","alice"],["client-id",null]],"alice"', '[["planet","alice"]],"alice"'),
                ('"gateway":"g1-5f0c"', '"gateway":7'),
                ('"address":"gateway', '"place":"gateway'),
                ('"connections":1200', '"connections":-1'),
                ('"connections":1200', '"connections":true'),
                ('"connections":1200', '"connections":0.5'),
                ('"requests":77,', ""),
                ('"requests_per_s":310.5', '"requests_per_s":-1'),
                ('"requests_per_s":310.5', '"requests_per_s":NaN'),
                ('"requests_per_s":310.5', '"requests_per_s":1e999'),
                ('"requests_per_s":310.5', '"requests_per_s":"1"'),
                ('"requests_per_s":310.5', f'"requests_per_s":1{"0" * 400}'),
                ('"requests_per_s":310.5', '"requests_per_s":1.1e300'),
                ('"connections":1200', f'"connections":{MAX_COUNT}'),
                ('"bound":1000000.0', f'"bound":1{"0" * 400}'),
                ('"channels":[{', '"channels":{'),
                ('"channels":[{', '"channels":[1,{'),
                ('"quota":"produce"', '"quota":"produces"'),
                ('"client_id":"app"', '"client_id":null'),
                ('[["user","alice"],', '[["user"],'),
                ('[["user","alice"],', "[7,"),
                ('[["tenant","a"]]', '[["tenant",null]]'),
                ('"bound":1000000.0', '"bound":null'),
                ('"remaining_ms":1700', '"remaining_ms":-1'),
                ('"obeys":true', '"obeys":1'),
            )
        ),
    ],
)
def test_invalid_summaries_are_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableReport):
        read_summary(data)


@pytest.mark.parametrize(("more", "is_read"), [(-1, True), (0, True), (1, False)])
def test_a_larger_record_is_not_read(more: int, is_read: bool) -> None:
    data = TEXT.encode().ljust(MAX_READ + more)
    if is_read:
        assert read_summary(data) == SUMMARY
    else:
        with pytest.raises(UnreadableReport, match="at most"):
            read_summary(data)


@pytest.mark.timed
@pytest.mark.parametrize("element", [b"0", b"[]", b"{}", b'""'])
def test_no_record_holds_the_thread(element: bytes) -> None:
    data = b'{"version":2,"more":[%b]}' % b",".join([element] * ((MAX_READ - 30) // (len(element) + 1)))
    times = []
    for _ in range(10):
        began = time.thread_time()
        with pytest.raises(UnreadableReport):
            read_summary(data)
        times.append(time.thread_time() - began)
    assert min(times) < PASS_S or min(times) < PASS_S * slowness()


def test_a_gateway_says_that_it_drains() -> None:
    assert read_summary(write_summary(replace(SUMMARY, draining=True))).draining


def test_a_gateway_that_says_nothing_of_its_nodes_has_none() -> None:
    found = json.loads(TEXT)
    del found["nodes"], found["draining"]
    summary = read_summary(json.dumps(found).encode())
    assert summary.nodes == () and not summary.draining


@pytest.mark.parametrize("count", [MAX_LISTENERS - 1, MAX_LISTENERS, MAX_LISTENERS + 1])
def test_the_number_of_listeners_is_bounded(count: int) -> None:
    nodes = tuple(
        ListenerNodes(f"L{number}", "SSL", NodeAddresses("g.example", 1_000, 1_009))
        for number in range(count)
    )
    found = json.loads(write_summary(replace(SUMMARY, nodes=nodes)))
    assert len(found["nodes"]) == min(count, MAX_LISTENERS)
    found["nodes"] = [["L", "SSL", "g.example:1000-1009"]] * count
    assert len(read_summary(json.dumps(found).encode()).nodes) == min(count, MAX_LISTENERS)


@pytest.mark.parametrize(
    "nodes",
    [
        7,
        [7],
        [["L", "SSL"]],
        [["L", "SSL", "g.example:9092"]],
        [["L", "SSL", ":1000-1009"]],
        [["L", "SSL", "g.example:1009-1000"]],
        [["L", "SSL", "g.example:0-9"]],
        [["L", "SSL", "g.example:65530-65536"]],
        [["L", "SSL", "$(nodeId).$(nodeId):9092"]],
        [["L", "SSL", "$(nodeId).example:0"]],
        [["L", 5, "g.example:1000-1009"]],
    ],
)
def test_nodes_that_no_gateway_writes_are_not_read(nodes: object) -> None:
    found = json.loads(TEXT) | {"nodes": nodes}
    with pytest.raises(UnreadableReport):
        read_summary(json.dumps(found).encode())
