"""Which requests of a connection whose login ends may be handled. (KIP-368; Kafka: SocketServer's
processCompletedReceives)

Asked by the processor of a listener with `connections.max.reauth.ms`, before a request is one; others have no
such question. What a session is, broker.security.session says.
"""

from typing import Final

from broker.network.connection.channel import Channel
from broker.network.connection.receive import Frame
from broker.network.selector import Selector
from broker.protocol.api_key import NAMES, ApiKey

ENDED: Final = "its session has ended"


class Sessions:
    """Of one processor. `frame_limit` is what a connection may send while it logs in, once more too."""

    def __init__(self, selector: Selector, frame_limit: int) -> None:
        self._counts = selector.counts
        self._frame_limit = frame_limit

    def refusal(self, channel: Channel, frame: Frame, now_ms: int) -> str | None:
        """Why the connection is to be closed instead; None where the request is to be handled. A handshake
        that comes too soon after the last one is, and is answered with ILLEGAL_SASL_STATE.
        """
        session = channel.session
        if session is None:
            return None
        key = int.from_bytes(frame[:2], "big")
        if session.renewing:
            if key != ApiKey.SASL_AUTHENTICATE:
                return f"{NAMES.get(key, key)} during re-authentication"
            channel.hold_back()
            return None
        if key == ApiKey.SASL_HANDSHAKE and session.begin_renewal(now_ms):
            channel.receive.limit = self._frame_limit
            channel.hold_back()
            return None
        if session.is_over(now_ms):
            self._counts.expired += 1
            return ENDED
        return None
