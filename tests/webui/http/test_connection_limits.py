"""The choice of the connection to close at a limit."""

import pytest

from webui.http.connection_limits import RESERVE, ConnectionLimits, CountedConnection

ONE, OTHER = "10.0.0.1", "10.0.0.2"


class Opened:
    """Connections by name, and the names of closed ones in order."""

    def __init__(self, maximum: int = 100, per_address: int = 100) -> None:
        self.limits = ConnectionLimits(maximum, per_address)
        self.entries: dict[str, CountedConnection] = {}
        self.closed: list[str] = []

    def open(self, name: str, address: str = ONE, *, busy: bool = False) -> bool:
        """Return whether the connection was accepted outside the reserve."""
        entry = self.limits.enter(address, lambda: self.closed.append(name))
        if entry is None:
            return False
        self.entries[name] = entry
        if busy:
            entry.set_idle(False)
        return not entry.is_reserved


@pytest.mark.parametrize(("count", "closed"), [(2, []), (3, []), (4, ["0"]), (5, ["0", "1"])])
def test_at_the_limit_of_an_address_its_longest_idle_one_is_evicted(count: int, closed: list[str]) -> None:
    opened = Opened(per_address=3)
    opened.open("other", OTHER)
    assert all(opened.open(str(index)) for index in range(count))
    assert opened.closed == closed and len(opened.limits) == 1 + min(count, 3)


@pytest.mark.parametrize(("count", "closed"), [(3, []), (4, []), (5, ["0"])])
def test_at_the_limit_of_all_the_address_with_the_most_idle_ones_is_evicted(
    count: int, closed: list[str]
) -> None:
    opened = Opened(maximum=5)
    opened.open("eldest of all", OTHER)
    for index in range(count):
        opened.open(str(index))
    assert opened.open("new", OTHER) is True or count > 4
    assert opened.closed == (["0"] if count == 4 else closed if count < 4 else ["0", "1"])


def test_a_connection_idle_since_lately_is_not_the_longest_idle() -> None:
    opened = Opened(per_address=2)
    opened.open("first"), opened.open("second")
    opened.entries["first"].set_idle(False)
    opened.entries["first"].set_idle(True)
    opened.open("third")
    assert opened.closed == ["second"]


def test_one_with_a_request_in_hand_is_not_evicted() -> None:
    opened = Opened(per_address=2)
    assert opened.open("first", busy=True) and opened.open("second", busy=True)
    assert not opened.open("third") and opened.closed == []
    opened.entries["second"].set_idle(True)
    assert opened.open("fourth") and opened.closed == ["second"]


@pytest.mark.parametrize("limits", [{"maximum": 1}, {"per_address": 1}])
def test_the_reserve_is_bounded_and_its_eldest_idle_one_is_evicted(limits: dict[str, int]) -> None:
    opened = Opened(**limits)
    opened.open("busy", busy=True)
    for index in range(RESERVE):
        assert not opened.open(str(index)) and opened.entries[str(index)].is_reserved
    assert opened.closed == [] and len(opened.limits) == 1
    opened.entries["0"].set_idle(False)
    opened.open("one more")
    assert opened.closed == ["1"] and opened.entries["one more"].is_reserved


def test_nothing_is_taken_where_the_reserve_is_busy_too() -> None:
    opened = Opened(maximum=1)
    for index in range(RESERVE + 1):
        opened.open(str(index), busy=True)
    assert not opened.open("one more") and "one more" not in opened.entries
    opened.entries["5"].leave()
    assert not opened.open("another") and opened.entries["another"].is_reserved


def test_a_departed_connection_is_not_counted_and_not_closed() -> None:
    opened = Opened(per_address=1)
    for index in range(5):
        assert opened.open(str(index))
        opened.entries[str(index)].leave()
        opened.entries[str(index)].leave()
        opened.entries[str(index)].set_idle(True)
    assert opened.closed == [] and len(opened.limits) == 0


def test_an_evicted_connection_is_removed_once() -> None:
    opened = Opened(per_address=1)
    opened.open("first"), opened.open("second")
    opened.entries["first"].leave()
    assert len(opened.limits) == 1 and opened.closed == ["first"]


def test_a_proxys_own_connections_have_the_limit_of_all_alone() -> None:
    opened = Opened(maximum=4, per_address=1)
    for name in "abc":
        assert opened.limits.enter(ONE, lambda name=name: opened.closed.append(name), is_proxys=True)
    assert opened.open("other", OTHER) and opened.closed == []
    assert opened.limits.enter(ONE, lambda: None, is_proxys=True)
    assert opened.closed == ["a"]
