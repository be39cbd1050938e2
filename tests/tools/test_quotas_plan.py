"""What `weir quotas plan` prints of the clients that a file reaches."""

import pytest

from broker.tools.quotas import print_reach

KEY = "producer_byte_rate"
NOTHING = {"entity": None, "bound": None}
USERS = {"entity": {"user": None}, "bound": 3e6}
APP = {"entity": {"client-id": "app"}, "bound": 1e6}


def test_every_move_is_a_line_with_its_first_throttle_and_what_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    moves = [{"from": NOTHING, "to": USERS, "clients": 2}, {"from": APP, "to": USERS, "clients": 1}]
    reach = {"key": KEY, "moves": moves, "emptied": [APP], "first_wait_ms": 66_667, "counted": 3}
    print_reach([reach | {"unlisted": 4}])
    assert capsys.readouterr().out.splitlines() == [
        f"{KEY}: 2 connected clients from no limit to default user (3 MB/s)",
        f"{KEY}: 1 connected client from client-id app (1 MB/s) to default user (3 MB/s)",
        f"{KEY}: throttled for up to 67 s at first",
        f"{KEY}: client-id app (1 MB/s) is left without connected clients",
        f"{KEY}: counts the first 3 of 7 connected clients",
    ]


def test_nothing_is_printed_without_clients(capsys: pytest.CaptureFixture[str]) -> None:
    print_reach([{"key": KEY, "moves": [], "emptied": [], "first_wait_ms": 0, "counted": 0, "unlisted": 0}])
    assert capsys.readouterr().out == ""
