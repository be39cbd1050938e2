"""The principal of a connection. (Kafka: KafkaPrincipal)

Below all other packages, for the broker, the console and the pipeline alike.
"""

from typing import Final

import msgspec

ANONYMOUS: Final = "ANONYMOUS"
"""The name of every unauthenticated client. (Kafka: KafkaPrincipal.ANONYMOUS)"""


class Principal(msgspec.Struct, frozen=True):
    """Its text is "User:alice", or "User:ANONYMOUS" without a login."""

    name: str
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"
