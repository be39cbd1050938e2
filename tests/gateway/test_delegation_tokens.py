"""Delegation tokens through the gateway: the client's own where it logs in upstream, else nobody's."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
)
from broker.security.plain import PLAIN_MODULE
from tests.gateway.test_logins import ALICE, USERS, log_in
from tests.support.running import running_broker
from tests.support.running_gateway import running_gateway

OWN_USERS = f"listener.name.sasl_plaintext.plain.sasl.jaas.config={USERS}"


@pytest.mark.parametrize(
    ("authentication", "error", "owners"),
    [
        ("upstream", ErrorCode.NONE, ["alice"]),
        ("gateway", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, []),
    ],
)
async def test_no_client_gets_a_token_of_the_gateway(
    tmp_path: Path, authentication: str, error: ErrorCode, owners: list[str]
) -> None:
    upstream = ("listeners=SASL_PLAINTEXT://127.0.0.1:0", OWN_USERS, "delegation.token.secret.key=a-secret")
    own = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f"gateway.authentication={authentication}",
        *((OWN_USERS,) if authentication == "gateway" else ()),
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=PLAIN",
        f'upstream.sasl.jaas.config={PLAIN_MODULE} required username="weir" password="own";',
    )
    async with (
        running_broker(tmp_path / "broker", *upstream) as broker,
        running_gateway(tmp_path / "gateway", broker.port, *own) as gateway,
    ):
        client = await gateway.connect()
        assert (await log_in(client, ALICE))[0] == 0
        made = await client.ask(CreateDelegationTokenRequest(), 3)
        assert made.error_code == error
        described = await client.ask(DescribeDelegationTokenRequest(None), 3)
        assert described.error_code == error
        assert [each.principal_name for each in described.tokens] == owners
