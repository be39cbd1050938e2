"""Who asks for a change, from where, through which door, and how much they may do.

Stored with every row of the metadata log; checked by broker.control, which hands it on to the store.
Knows nothing of tokens, sessions or connections: the door that the request came through has settled those.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Role(IntEnum):
    """Each role may do what the ones below it may; compare with `<` and `>=`."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3


class ChangeOrigin(StrEnum):
    """The ways into the broker. `BROKER` is the broker itself: its first start, its own topics."""

    WIRE = "wire"
    REST = "rest"
    PAGE = "page"
    COMMAND_LINE = "command-line"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Actor:
    """`name` is the principal or the token's name, `address` the peer's IP address, empty for the broker
    itself.
    """

    name: str
    role: Role
    address: str
    door: ChangeOrigin


BROKER_ITSELF = Actor("broker", Role.ADMIN, "", ChangeOrigin.BROKER)

COMMAND_LINE = Actor("operator", Role.ADMIN, "", ChangeOrigin.COMMAND_LINE)
"""Who starts the broker, and could change its files too."""
