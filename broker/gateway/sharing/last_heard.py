"""The last record of each gateway, until the gateway is lost. Pure: time is an argument."""

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

from broker.gateway.sharing.table import MAX_GATEWAYS

KEPT_MS: Final = 5_000
"""A gateway that has told nothing for longer is lost. Records are written once a second."""

Record = TypeVar("Record")


class LastHeard(Generic[Record]):
    __slots__ = ("_heard",)

    def __init__(self) -> None:
        # The gateway that was heard longest ago first.
        self._heard: dict[str, tuple[int, Record]] = {}

    def __len__(self) -> int:
        return len(self._heard)

    def hear(self, gateway: str, record: Record, now_ms: int) -> None:
        """Take the next record of a gateway."""
        self._heard.pop(gateway, None)
        self._heard[gateway] = now_ms, record
        if len(self._heard) > MAX_GATEWAYS:
            del self._heard[next(iter(self._heard))]
        while now_ms - next(iter(self._heard.values()))[0] > KEPT_MS:
            del self._heard[next(iter(self._heard))]

    def forget(self, gateway: str) -> None:
        self._heard.pop(gateway, None)

    def each(self, now_ms: int) -> Iterator[tuple[int, Record]]:
        """Yield the last record of each gateway that is not lost, and how long ago it was heard."""
        for heard_ms, record in list(self._heard.values()):
            if now_ms - heard_ms <= KEPT_MS:
                yield now_ms - heard_ms, record

    def by_gateway(self, now_ms: int) -> Mapping[str, Record]:
        """Return the same by the gateway's id."""
        return {name: record for name, (at_ms, record) in self._heard.items() if now_ms - at_ms <= KEPT_MS}
