"""The principal of a connection. (Kafka: KafkaPrincipal)

Below all other packages, for the broker, the console and the pipeline alike.
"""

from typing import Final

import msgspec

ANONYMOUS: Final = "ANONYMOUS"
"""The name of every unauthenticated client. (Kafka: KafkaPrincipal.ANONYMOUS)"""


def is_plain(name: str) -> bool:
    """Return whether a name is what it looks like: printable, and without spaces around it. A name that comes
    from outside is refused otherwise: what removes spaces somewhere would make two users one.
    """
    return name.isprintable() and name == name.strip() != ""


class Principal(msgspec.Struct, frozen=True):
    """Its text is "User:alice", or "User:ANONYMOUS" without a login."""

    name: str
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def split_principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal."""
    kind, _, name = text.partition(":")
    return kind, name
