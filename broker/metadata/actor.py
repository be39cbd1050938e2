"""The actor of a change: name, role, address, and the interface that the request used.

The metadata log stores it with every row; broker.controller checks the role. Independent of tokens, sessions
and connections, which each interface handles itself.
"""

from enum import IntEnum, StrEnum

import msgspec


class Role(IntEnum):
    """Each role includes the rights of the lower ones; compare with `<` and `>=`."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3


class ChangeOrigin(StrEnum):
    """The interfaces for changes. `BROKER` is the broker itself: its first start, its own topics. `UPSTREAM`
    is the cluster behind a gateway, whose changes the gateway follows.
    """

    WIRE = "wire"
    REST = "rest"
    PAGE = "page"
    COMMAND_LINE = "command-line"
    BROKER = "broker"
    UPSTREAM = "upstream"


class Actor(msgspec.Struct, frozen=True):
    """`name` is the principal or the token's name, `address` the peer's IP address, empty for the broker
    itself.
    """

    name: str
    role: Role
    address: str
    origin: ChangeOrigin


def lacks_role(name: str, role: Role, needed: Role) -> str:
    """Return why a client with a lower role than needed is refused."""
    return f"{name} has the role {role.name.lower()}; this operation requires the role {needed.name.lower()}"


BROKER_ITSELF = Actor("broker", Role.ADMIN, "", ChangeOrigin.BROKER)

UPSTREAM_CLUSTER = Actor("upstream cluster", Role.ADMIN, "", ChangeOrigin.UPSTREAM)

COMMAND_LINE = Actor("operator", Role.ADMIN, "", ChangeOrigin.COMMAND_LINE)
"""The operator who starts the broker, who can also modify its files."""
