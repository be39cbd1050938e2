"""Addresses with their rules and their use, as one row each."""

from broker.control.commands import (
    AlterClientQuotas,
    QuotaAlteration,
    QuotaOp,
)
from broker.control.control import Control
from broker.control.reading import ControlViews
from broker.control.views import (
    AddressUse,
)
from broker.metadata.actor import Role
from tests.control.live import Live
from tests.control.world import actor


async def test_an_address_is_one_row_with_its_rule_and_what_it_does(
    control: Control, views: ControlViews, live: Live
) -> None:
    def limit(name: str | None, value: float) -> QuotaAlteration:
        return QuotaAlteration((("ip", name),), (QuotaOp("connection_creation_rate", value),))

    limits = (limit(None, 5), limit("10.0.0.7", 20), limit("10.0.0.8", 3))
    await control.apply(AlterClientQuotas(limits), actor(Role.ADMIN))
    live.seen = [AddressUse(address, 1.0, 2, None, 9, 1, 0) for address in ("10.0.0.7", "10.0.0.9")]
    rows = {row.address: row for row in views.addresses()}
    assert {address: (row.limit, row.bound) for address, row in rows.items()} == {
        None: (5, 5),
        "10.0.0.7": (20, 20),
        "10.0.0.8": (3, 3),
        "10.0.0.9": (None, 5),
    }
    assert rows["10.0.0.7"].use == live.seen[0] and rows["10.0.0.8"].use is None
    assert rows["10.0.0.9"].use == live.seen[1] and rows["10.0.0.9"].version == 0


async def test_what_an_address_does_on_the_controllers_listeners_stands_beside_it(
    control: Control, views: ControlViews, live: Live
) -> None:
    live.seen = [AddressUse("10.0.0.7", 1.0, 2, None, 9, 1, 0)]
    live.controller_seen = [AddressUse(address, 3.0, 1, 5, 1, 0, 2) for address in ("10.0.0.7", "10.0.0.8")]
    rows = {row.address: row for row in views.addresses()}
    assert set(rows) == {"10.0.0.7", "10.0.0.8"}
    assert rows["10.0.0.7"].uses == (live.seen[0], live.controller_seen[0])
    assert (rows["10.0.0.8"].use, rows["10.0.0.8"].controller_use) == (None, live.controller_seen[1])
