"""What a gateway reads of its upstream cluster, and how old it is. Part of `console.Views`.

A broker shows its own state, which is always at hand: the class here. A gateway's reads from the cluster
(`gateway.contents.readings`). The views that show what was read stay synchronous: they show the last reading.
"""

from enum import StrEnum

from broker.controller.rows.upstream import ReadState


class Part(StrEnum):
    """What is read as a whole. TOPIC_CONFIGS, GROUP, TRANSACTION and NODE_CONFIGS are those of one name."""

    TOPICS = "topics"
    TOPIC_CONFIGS = "topic-configs"
    GROUPS = "groups"
    GROUP = "group"
    TRANSACTIONS = "transactions"
    TRANSACTION = "transaction"
    ACLS = "acls"
    SCRAM_USERS = "scram-users"
    NODE_CONFIGS = "node-configs"


class Readings:
    """Those of a broker: nothing is read, and nothing is old."""

    async def fresh(self, part: Part, name: str = "") -> None:
        """Wait, a few seconds at most, until a part is read again if it is old. Raises ApiError if it was
        never read: the cluster refuses it, or does not answer.
        """

    def want(self, part: Part, name: str = "") -> None:
        """Let a part be read again if it is old. Waits for nothing."""

    def state(self, part: Part, name: str = "") -> ReadState | None:
        """Return what to tell of the last reading; None for what is always at hand."""
        return None
