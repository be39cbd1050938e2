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
    AUTHORIZER = "authorizer"
    SCRAM_USERS = "scram-users"
    NODE_CONFIGS = "node-configs"


class Readings:
    """Those of a broker: nothing is read, and nothing is old."""

    async def fresh(self, part: Part, name: str = "") -> None:
        """Wait, a few seconds at most, until a part is read again if it is old. Raises ApiError if it was
        never read: the cluster refuses it, or does not answer.
        """

    async def now(self, part: Part, name: str = "") -> None:
        """As `fresh`, of a reading that begins now: for what a change is decided by. Raises ApiError also if
        an earlier one is all that there is.
        """

    def is_current(self, part: Part) -> bool:
        """Whether the last reading of a part read something: else its values are those of an earlier one."""
        return True

    def lists_all(self, part: Part) -> bool:
        """Whether what a part does not have was not there when it was read last."""
        return True

    def want(self, part: Part, name: str = "") -> None:
        """Let a part be read again if it is old. Waits for nothing."""

    def state(self, part: Part, name: str = "") -> ReadState | None:
        """Return what to tell of the last reading; None for what is always at hand."""
        return None
