"""Whose a request is that HTTP proxies have forwarded."""

from ipaddress import ip_network
from typing import Any

import pytest

from webui.http.forwarded_for import MAX_HOPS, client_of

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")]
PROXY, CLIENT, FORGED = "10.0.0.1", "192.0.2.7", "198.51.100.1"


def address(peer: str, *headers: str) -> tuple[str, int] | None:
    fields = [(b"host", b"localhost"), *((b"x-forwarded-for", each.encode("latin-1")) for each in headers)]
    scope: Any = {"client": (peer, 40_000), "headers": fields}
    return client_of(scope, TRUSTED)


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        (PROXY, [], PROXY),
        (PROXY, [CLIENT], CLIENT),
        (PROXY, [f" {CLIENT}\t"], CLIENT),
        (PROXY, [f"{CLIENT}:4711"], CLIENT),
        (PROXY, ["2001:db9::7"], "2001:db9::7"),
        (PROXY, ["[2001:DB9::7]"], "2001:db9::7"),
        (PROXY, ["[2001:db9::7]:4711"], "2001:db9::7"),
        (PROXY, [f"::ffff:{CLIENT}"], CLIENT),
        ("2001:db8::1", [CLIENT], CLIENT),
        (PROXY, [f"{FORGED}, {CLIENT}"], CLIENT),
        (PROXY, [FORGED, CLIENT], CLIENT),
        (PROXY, [f"{FORGED},{CLIENT},10.0.0.2"], CLIENT),
        (PROXY, [f"{FORGED},{CLIENT}", "10.0.0.3,10.0.0.2"], CLIENT),
        (PROXY, ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (PROXY, [f"{FORGED}, unknown"], PROXY),
        (PROXY, [f"{FORGED}, unknown, 10.0.0.2"], "10.0.0.2"),
        (PROXY, [f"{CLIENT},"], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, ["fe80::1%eth0"], PROXY),
        (PROXY, ["_hidden"], PROXY),
        (PROXY, [f"{CLIENT}\xa0"], PROXY),
        (CLIENT, [FORGED], CLIENT),
        (CLIENT, ["10.0.0.2"], CLIENT),
    ],
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(
    peer: str, headers: list[str], expected: str
) -> None:
    assert address(peer, *headers) == (expected, 40_000 if expected == peer else 0)


@pytest.mark.parametrize(
    ("hops", "expected"),
    [(MAX_HOPS - 1, CLIENT), (MAX_HOPS, "10.0.0.2"), (MAX_HOPS + 1, "10.0.0.2"), (1_500, "10.0.0.2")],
)
def test_so_many_proxies_are_followed(hops: int, expected: str) -> None:
    found = address(PROXY, ",".join([CLIENT, *["10.0.0.2"] * hops]))
    assert found is not None and found[0] == expected


def test_a_request_without_a_peer_has_no_client() -> None:
    scope: Any = {"client": None, "headers": [(b"x-forwarded-for", CLIENT.encode())]}
    assert client_of(scope, TRUSTED) is None
