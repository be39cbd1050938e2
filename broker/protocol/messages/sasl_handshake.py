"""Sasl handshake, API key 17. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class SaslHandshakeRequest(Message, api_key=17, versions=(0, 1)):
    mechanism: str = field("string", 0, 1)


class SaslHandshakeResponse(Message, api_key=17, versions=(0, 1)):
    error_code: int = field("int16", 0, 1)
    mechanisms: list[str] = field("string", 0, 1, array=True)
