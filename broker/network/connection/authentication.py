"""The log line of a connection that has authenticated. (Kafka: Selector.pollSelectionKeys)

Called by the responder after a SASL login, and by TLS handshakes after a client's certificate.
"""

import logging

from broker.network.connection.channel import Channel

logger = logging.getLogger(__name__)


def log_authenticated(channel: Channel, *, again: bool = False) -> None:
    """Log a login, or with `again` a re-authentication (KIP-368). The channel's principal must be set."""
    logger.debug(
        "Successfully %sauthenticated with %s:%d",
        "re-" if again else "",
        channel.address,
        channel.port,
        extra={
            "connection": channel.id,
            "listener": channel.listener,
            "principal": f"User:{channel.principal}",
            "mechanism": channel.sasl_mechanism or "SSL",
        },
    )
