"""Which requests a connection with an expiring login may send. (KIP-368; Kafka: SocketServer's
processCompletedReceives)

The processor of a listener with `connections.max.reauth.ms` calls it for every frame. broker.security.session
defines sessions.
"""

from typing import Final

from broker.network.connection.channel import Channel
from broker.network.connection.receive import Frame
from broker.network.selector import Selector
from broker.protocol.api_key import NAMES, ApiKey

ENDED: Final = "its session has ended"


class Sessions:
    """The sessions of one processor. `frame_limit` is the maximum frame size during a login or
    re-authentication.
    """

    def __init__(self, selector: Selector, frame_limit: int) -> None:
        self._counts = selector.counts
        self._frame_limit = frame_limit

    def refusal(self, channel: Channel, frame: Frame, now_ms: int) -> str | None:
        """Return the reason to close the connection, or None to handle the request. A handshake too soon
        after the last one is handled, and gets ILLEGAL_SASL_STATE.
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
