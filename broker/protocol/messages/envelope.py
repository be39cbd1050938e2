"""Envelope, API key 58. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("request_data", "bytes", 0, 0),
        Field("request_principal", "bytes", 0, 0, nullable=0),
        Field("client_host_address", "bytes", 0, 0),
    )

    def __init__(
        self,
        request_data: Buffer = b"",
        request_principal: Buffer | None = None,
        client_host_address: Buffer = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code")
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("response_data", "bytes", 0, 0, nullable=0),
        Field("error_code", "int16", 0, 0),
    )

    def __init__(self, response_data: Buffer | None = None, error_code: int = 0) -> None:
        self.response_data = response_data
        self.error_code = error_code
