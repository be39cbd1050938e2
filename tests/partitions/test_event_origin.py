"""The headers that say where an event comes from."""

import pytest

from broker.partitions.event_origin import EventOrigin


@pytest.mark.parametrize(
    ("cluster", "gateway", "expected"),
    [
        ("c1", "", (("cluster", b"c1"), ("node", b"7"))),
        ("c1", "7-ab", (("cluster", b"c1"), ("node", b"7"), ("gateway", b"7-ab"))),
        ("", "7-ab", (("node", b"7"), ("gateway", b"7-ab"))),
    ],
)
def test_only_what_is_known_is_a_header(
    cluster: str, gateway: str, expected: tuple[tuple[str, bytes], ...]
) -> None:
    assert EventOrigin(7, lambda: cluster, gateway).headers() == expected


def test_a_cluster_that_is_found_later_is_in_later_records() -> None:
    found = ""
    origin = EventOrigin(7, lambda: found)
    assert origin.headers() == (("node", b"7"),)
    found = "c1"
    assert origin.headers() == (("cluster", b"c1"), ("node", b"7"))
