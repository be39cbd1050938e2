"""Access tokens at a gateway that authenticates by itself: it follows the issuer's keys as a broker does."""

import time
from pathlib import Path

from broker.common.errors import ErrorCode
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.fake_upstream import fake_cluster
from tests.support.gateway_upstream import Upstream
from tests.support.running_gateway import running_gateway
from tests.support.token_issuer import AUDIENCE, message, token, write_key_set


async def test_a_client_logs_in_with_a_token(tmp_path: Path) -> None:
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "gateway.authentication=gateway",
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={write_key_set(tmp_path)}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        "sasl.oauthbearer.allow.unverified.issuer=true",
    )
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        Upstream(node)
        async with running_gateway(tmp_path, node.port, *settings) as gateway:
            client = await gateway.connect()
            assert (await client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)).error_code == ErrorCode.NONE
            reply = await client.ask(SaslAuthenticateRequest(message(token(time.time()))), 2)
            assert reply.error_code == ErrorCode.NONE and 290_000 < reply.session_lifetime_ms <= 300_000
            assert [channel.principal for channel in gateway.channels()] == ["ann"]
