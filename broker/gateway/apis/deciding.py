"""Decides from a request's content whether the gateway answers it or forwards it unchanged."""

from collections.abc import Callable
from typing import Any, Final

from broker.common.errors import ProtocolViolation
from broker.gateway.routes import Answers
from broker.metadata.image import OUR_TOPICS
from broker.network.connection.channel import Channel
from broker.protocol.api_key import ApiKey, request_header_version
from broker.protocol.client_id import client_id_and_body
from broker.protocol.codec import decode_request

RESERVED: Final = OUR_TOPICS.strip("_").encode()
"""In every name for which `is_reserved` is true."""

MayBe = Answers
"""Returns, without reading the message, whether the gateway may have to answer a request."""


def decides(key: ApiKey, version: int, is_ours: Callable[[Any, Channel], bool], may_be: MayBe) -> Answers:
    """Return the answer for a version of an API: of the requests that may be the gateway's, it answers those
    of which `is_ours` says so, large ones, and damaged ones, whose connections close.
    """
    flexible = request_header_version(key, version) == 2
    decode = decode_request(key, version)

    def answers(frame: memoryview | None, channel: Channel) -> bool:
        if not may_be(frame, channel):
            return False
        if frame is None:
            return True
        try:
            _, body = client_id_and_body(frame, flexible)
            message = decode(frame, body)
        except ProtocolViolation:
            return True
        return is_ours(message, channel)

    return answers


def may_name_reserved(frame: memoryview | None) -> bool:
    """Return whether a request could name a topic that only Weir creates."""
    return frame is None or RESERVED in bytes(frame)
