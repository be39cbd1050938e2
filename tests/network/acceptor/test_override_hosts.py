"""Many overrides of max.connections.per.ip are converted in slices, a few apply at once."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.common import slices as common_slices
from broker.network.acceptor import override_hosts
from broker.network.acceptor.override_hosts import AT_ONCE, OverrideHosts
from broker.quotas.connection_rates import canonical_address


class Gate:
    """The overrides in force, and how many addresses were converted between two checkpoints at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applied: list[dict[str, int]] = []
        self.converted = self.most = 0
        self.hosts = OverrideHosts(self.applied.append, self._counted)
        monkeypatch.setattr(override_hosts, "canonical_address", self._canonical)

    def _canonical(self, text: str) -> str:
        self.converted += 1
        return canonical_address(text)

    def _counted(self, address: str) -> str:
        return f"counted {address}"

    async def watch(self) -> None:
        while True:
            before = self.converted
            await trio.lowlevel.checkpoint()
            self.most = max(self.most, self.converted - before)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def overrides(count: int, most: int = 5) -> list[tuple[str, int]]:
    return [(f"10.0.{at >> 8}.{at & 255}", most) for at in range(count)]


@pytest.mark.parametrize(("count", "at_once"), [(AT_ONCE - 1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 0)])
async def test_so_many_overrides_apply_at_once(gate: Gate, count: int, at_once: int) -> None:
    gate.hosts.set_overrides(overrides(count))
    assert len(gate.applied) == at_once
    async with trio.open_nursery() as nursery:
        await nursery.start(gate.hosts.run)
        nursery.cancel_scope.cancel()
    assert gate.applied[-1] == {f"counted {host}": 5 for host, _ in overrides(count)}


async def test_more_are_converted_a_slice_between_two_checkpoints(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)  # each step is a slice
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)
    gate.hosts.set_overrides(overrides(3 * AT_ONCE))
    async with trio.open_nursery() as nursery:
        await nursery.start(gate.hosts.run)
        nursery.start_soon(gate.watch)
        gate.hosts.set_overrides(overrides(2_000, 7))
        while len(gate.applied) < 2:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert 1 <= gate.most <= 2, "both tasks run once between two looks at the network, in any order"
    assert len(gate.applied[-1]) == 2_000 and set(gate.applied[-1].values()) == {7}


async def test_those_that_change_meanwhile_do_not_apply(gate: Gate) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(gate.hosts.run)
        gate.hosts.set_overrides(overrides(2_000, 7))
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        gate.hosts.set_overrides(overrides(2_000, 8))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [set(each.values()) for each in gate.applied] == [set(), {8}]
