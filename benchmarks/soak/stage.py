"""What all clients of a soak share: the broker's address, the ledgers, the list of errors, and the end."""

import time
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import trio

from benchmarks.soak.anomalies import Anomalies
from benchmarks.soak.group_ledger import GroupLedger
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.topics import COPY, GROUPS, TOPICS

KEPT_BYTES: Final = 4 << 20
"""retention.bytes of each partition; a quarter of it must be there in values, as segments go whole."""

SESSION_S: Final = (15.0, 45.0)
"""A client lives so long, and a new one follows."""

AGAIN_S: Final = 0.5

IDS_AN_HOUR: Final = 50
"""Client ids of each kind. The broker keeps a quota's sensors for an hour, so that they are all there after
some minutes, and a run of days still has new ones every hour.
"""


@dataclass(slots=True)
class Stage:
    port: int
    token: str
    seed: int
    anomalies: Anomalies
    ledgers: dict[str, Ledger] = field(
        default_factory=lambda: {topic: Ledger(topic, KEPT_BYTES // 4) for topic in TOPICS}
    )
    groups: dict[str, GroupLedger] = field(
        default_factory=lambda: {group: GroupLedger(group) for group in GROUPS}
    )
    producers_end: trio.Event = field(default_factory=trio.Event)
    readers_end: trio.Event = field(default_factory=trio.Event)
    sessions: dict[str, int] = field(default_factory=dict)
    """How many processes of each client have ended."""

    rounds: dict[str, int] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=count)
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        # A copy has the number of its original, so it may be seen before the copier hears of the commit.
        self.ledgers[COPY].sent = 1 << 62

    def client_id(self, kind: str) -> str:
        """Return the id of a client that comes now."""
        hour = int(time.monotonic() - self.began_s) // 3_600
        return f"{kind}-{hour}-{next(self.numbers) % IDS_AN_HOUR}"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def report(self, source: str, error: object) -> None:
        text = str(error) or repr(error)
        self.anomalies.add(source, text.splitlines()[0], time.monotonic())
