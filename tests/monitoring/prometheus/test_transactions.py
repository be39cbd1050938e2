"""Metrics of transactions: how many are in which state, and how they were decided."""

from pathlib import Path

from broker.monitoring.prometheus.transactions import transaction_families
from tests.webui.log_world import LogWorld


def values(world: LogWorld) -> dict[str, float]:
    return {
        f"{family.name} {sample.labels[0][1]}": sample.value
        for family in transaction_families(world.transactions)
        if family is not None
        for sample in family.samples
        if sample.value
    }


def test_states_and_decisions_are_counted(tmp_path: Path) -> None:
    world = LogWorld(tmp_path)
    world.topic("t")
    assert values(world) == {}
    world.transact("idle")
    world.transact("late", ("t", 0), timeout_ms=1_000)
    world.transact("aborted", ("t", 0))
    assert values(world) == {"weir_transactional_ids Empty": 1, "weir_transactional_ids Ongoing": 2}
    aborted = world.transactions.coordinator.get("aborted")
    assert aborted is not None and not world.transactions.abort(aborted, world.now())
    world.clock.advance(20_000)
    for _ in range(3):
        world.transactions.run(world.now())
    assert values(world) == {
        "weir_transactional_ids Empty": 1,
        "weir_transactional_ids CompleteAbort": 2,
        "weir_transactions_decided_total timed_out": 1,
        "weir_transactions_decided_total aborted_by_operator": 1,
    }
    world.close()
