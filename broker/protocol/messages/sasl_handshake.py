"""Sasl handshake, API key 17. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)
    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (Field("mechanism", "string", 0, 1),)

    def __init__(self, mechanism: str = "") -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")
    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (
        Field("error_code", "int16", 0, 1),
        Field("mechanisms", "string", 0, 1, array=True),
    )

    def __init__(self, error_code: int = 0, mechanisms: list[str] | None = None) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is None else mechanisms
