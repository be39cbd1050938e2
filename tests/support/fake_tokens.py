"""The delegation tokens of an upstream cluster, for an `UpstreamClient` that the test replaces."""

import hashlib
from dataclasses import dataclass
from typing import Any

import trio

from broker.common.errors import ErrorCode
from broker.gateway.upstream.errors import UpstreamError
from broker.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

AHEAD_MS = 1_234_567_890
"""The cluster's clock is another one."""


@dataclass
class FakeToken:
    id: str
    hmac: bytes
    owner: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    max_ms: int


class FakeTokens:
    """Has the place of an `UpstreamClient`. `requests` are the requests in order, with their versions.

    `refusals` are answered in place of creations, `failures` raised in place of all answers; `hides` are
    tokens that brokers do not describe. `takes_s` is how long an answer takes. All tokens are those of
    `owner` if it is set, and without an owner in the request the gateway's, as with Kafka.
    """

    def __init__(self, expiry_ms: int = 100_000, max_ms: int = 1_000_000) -> None:
        self.expiry_ms = expiry_ms
        self.max_lifetime_ms = max_ms
        self.gateway = "weir"
        self.owner = ""
        self.requests: list[tuple[Any, int | None]] = []
        self.tokens: dict[str, FakeToken] = {}
        self.refusals: list[ErrorCode] = []
        self.failures: list[UpstreamError] = []
        self.hides: set[str] = set()
        self.takes_s = 0.0
        self._number = 0

    def count(self, kind: type) -> int:
        return sum(isinstance(message, kind) for message, _ in self.requests)

    @property
    def made(self) -> int:
        return self.count(CreateDelegationTokenRequest)

    @property
    def renewed(self) -> int:
        return self.count(RenewDelegationTokenRequest)

    @property
    def expired(self) -> int:
        return self.count(ExpireDelegationTokenRequest)

    @property
    def described(self) -> int:
        return self.count(DescribeDelegationTokenRequest)

    async def request(
        self,
        node_id: int | None,
        message: Any,
        version: int | None = None,
        *,
        lane: str = "",
        timeout_ms: int | None = None,
    ) -> Any:
        assert node_id is None and lane and timeout_ms == 10_000
        self.requests.append((message, version))
        await trio.sleep(self.takes_s)
        if self.failures:
            raise self.failures.pop(0)
        now_ms = round(trio.current_time() * 1_000) + AHEAD_MS
        match message:
            case CreateDelegationTokenRequest():
                return self._create(message, now_ms)
            case RenewDelegationTokenRequest():
                return self._renew(message, now_ms)
            case ExpireDelegationTokenRequest():
                self.tokens = {key: each for key, each in self.tokens.items() if each.hmac != message.hmac}
                return ExpireDelegationTokenResponse()
        return DescribeDelegationTokenResponse(0, [self._described(each) for each in self._known(message)])

    def _create(self, message: CreateDelegationTokenRequest, now_ms: int) -> CreateDelegationTokenResponse:
        if self.refusals:
            return CreateDelegationTokenResponse(self.refusals.pop(0))
        self._number += 1
        name = f"token-{self._number}"
        token = FakeToken(
            name,
            hashlib.sha512(name.encode()).digest(),
            self.owner or message.owner_principal_name or self.gateway,
            [each.principal_name for each in message.renewers],
            now_ms,
            now_ms + min(self.expiry_ms, self.max_lifetime_ms),
            now_ms + self.max_lifetime_ms,
        )
        self.tokens[name] = token
        return CreateDelegationTokenResponse(
            0,
            "User",
            token.owner,
            "User",
            self.gateway,
            token.issued_ms,
            token.expires_ms,
            token.max_ms,
            name,
            token.hmac,
        )

    def _renew(self, message: RenewDelegationTokenRequest, now_ms: int) -> RenewDelegationTokenResponse:
        token = next((each for each in self.tokens.values() if each.hmac == message.hmac), None)
        if token is None:
            return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if token.expires_ms < now_ms:
            return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if self.gateway not in token.renewers:
            return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        token.expires_ms = min(token.max_ms, now_ms + self.expiry_ms)
        return RenewDelegationTokenResponse(0, token.expires_ms)

    def _known(self, message: DescribeDelegationTokenRequest) -> list[FakeToken]:
        owners = {each.principal_name for each in message.owners or ()}
        return [
            each
            for each in self.tokens.values()
            if each.id not in self.hides and owners & {each.owner, *each.renewers}
        ]

    def _described(self, token: FakeToken) -> DescribedDelegationToken:
        return DescribedDelegationToken(
            "User",
            token.owner,
            "User",
            self.gateway,
            token.issued_ms,
            token.expires_ms,
            token.max_ms,
            token.id,
            token.hmac,
        )
