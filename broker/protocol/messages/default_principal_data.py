"""Default principal data. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class DefaultPrincipalData(Message):
    __slots__ = ("type_", "name", "token_authenticated")
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("type_", "string", 0, 0),
        Field("name", "string", 0, 0),
        Field("token_authenticated", "bool", 0, 0),
    )

    def __init__(self, type_: str = "", name: str = "", token_authenticated: bool = False) -> None:
        self.type_ = type_
        self.name = name
        self.token_authenticated = token_authenticated
