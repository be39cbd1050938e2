"""Delegation tokens of clients' principals: gateway.upstream.principal=delegation-token. (KIP-48, KIP-373)

The gateway's own user creates a token with the client's principal as owner and itself as renewer, and the
client's upstream connection logs in with it. Other requests of a token are the gateway's too, over its own
connection:

    renewed     after RENEW_AT of the time that the last renewal gave it
    replaced    at the same time, when its maximum lifetime leaves less than a whole time, or the cluster does
                not renew it. Connections log in with the next one when their login ends (KIP-368): the owner
                is the same, so the cluster lets them
    watched     every WATCH_EVERY_MS. A token that somebody has expired, or lets end sooner, is not replaced:
                the connections of its owner close, and no token is made for BARRED_MS
    expired     when its owner has had no connection for IDLE_MS, or is no longer a user of the gateway

Brokers learn of a new token some time after the controller has made it. So a first login is tried again for
SETTLED_MS, and where there is a token before it, that is used for so long.

Times of a token are the cluster's. Only differences of them count here, so clocks need not agree.
"""

import heapq
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import trio

from broker.common.clock import Clock
from broker.common.errors import ErrorCode
from broker.common.limited_lines import shown
from broker.common.principal import Principal
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError, name_of
from broker.gateway.upstream.mapped import CloseClients
from broker.gateway.upstream.principals import RefusedPrincipals
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.reaper import Reaper
from broker.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from broker.security.client_login import ClientCredentials
from broker.security.plain import MECHANISM as PLAIN
from broker.security.sealed import Sealed

RENEW_AT: Final = 0.75
"""The share of its time after which a token is renewed; ours."""

LOGIN_AT: Final = 0.85
"""The share from which connections log in again. By then all brokers have to know the next token: a login
with one that ends soon must be renewed soon, and Kafka lets a second pass between two. (KIP-368)
"""

SETTLED_MS: Final = 5_000
"""How long brokers may take to learn of a token; ours."""

RETRY_MS: Final = 1_000
"""Between two attempts to renew a token, and at least between two renewals; ours."""

FIRST_RETRY_S: Final = 0.02
"""Before the second attempt of a first login, and longer each time; ours."""

TIMEOUT_MS: Final = 10_000
WATCH_EVERY_MS: Final = 20_000
"""Ours: a user whose token is expired is out within a minute, also if one request is lost."""

IDLE_MS: Final = 600_000
BARRED_MS: Final = 600_000

KEPT_ENDS: Final = 16
"""Of one token: the ends that renewals gave it; ours."""

SPARE: Final = 64
"""Times of former tokens that are kept beyond those of the present ones; ours."""

MAX_PRINCIPALS: Final = 10_000
"""Principals with a token; ours. Beyond these, the one that has had no connection for longest loses its own.
"""

AT_ONCE: Final = 32
"""Requests for tokens in flight; ours."""

LANE: Final = "tokens"
"""The controller answers these requests; others must not wait behind them."""

SCRAM: Final = "SCRAM-SHA-512"
"""The mechanism of tokens where the gateway's own login is PLAIN; a token has all of SCRAM."""

USER: Final = "User"
OWNERS_FROM: Final = 3
"""The first version of CreateDelegationToken with an owner."""

DEFAULT: Final = -1
"""The maximum lifetime and the renewal that the cluster chooses."""

AT_ONCE_MS: Final = -1
"""The time until its end that expires a token at once."""

GONE: Final = (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_EXPIRED)
REVOKED: Final = "its delegation token was expired at the cluster"
NAMELESS: Final = "its certificate has no name; the cluster would make a token of the gateway's user"
OTHER_OWNER: Final = "the cluster has made a delegation token of another principal"
TOO_MANY: Final = f"the gateway keeps tokens of {MAX_PRINCIPALS} principals, and all of them have connections"
OLD_CLUSTER: Final = "the cluster must have Kafka 3.3 or later to make tokens for others (KIP-373)"

ADVICE: Final[Mapping[int, str]] = {
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "the gateway's user {gateway} may not create tokens for it; allow this with kafka-acls.sh --add "
        "--allow-principal User:{gateway} --operation CreateTokens --user-principal {owner}"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "the cluster has no delegation tokens; set delegation.token.secret.key at its brokers and controllers"
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "the cluster makes tokens only for users that have logged in with SASL or a certificate"
    ),
    ErrorCode.UNSUPPORTED_VERSION: "the cluster's metadata.version is before 3.6, which has no tokens",
}


class Token:
    """A token of the cluster. `expires_ms` and `max_ms` are times of our clock, `changed_ms` is when it was
    made or renewed. One that `is_ending` is not renewed: somebody has chosen its end. `turn` is the number
    of the time at which it is seen to next.
    """

    def __init__(self, made: CreateDelegationTokenResponse, owner: str, mechanism: str, sent_ms: int) -> None:
        token_hmac = bytes(made.hmac)
        self.id = made.token_id
        self.hmac = Sealed(token_hmac)
        self.credentials = ClientCredentials(mechanism, self.id, b64encode(token_hmac).decode(), owner)
        self._ahead_ms = made.issue_timestamp_ms - sent_ms
        self.max_ms = self.ours(made.max_timestamp_ms)
        self._span_ms = made.expiry_timestamp_ms - made.issue_timestamp_ms
        self.made_ms = sent_ms
        self.turn = 0
        self.is_ending = False
        self._given: deque[int] = deque(maxlen=KEPT_ENDS)
        self.renewed(made.expiry_timestamp_ms, sent_ms)

    def ours(self, cluster_ms: int) -> int:
        """Return a time of the cluster's clock as one of ours, early by the time of a request at most."""
        return cluster_ms - self._ahead_ms

    def renewed(self, expiry_ms: int, sent_ms: int) -> None:
        """Note a renewal that was asked for at `sent_ms`, and that it ends at `expiry_ms` of the cluster."""
        self.changed_ms = sent_ms
        self._given.append(expiry_ms)
        self.expires_ms = self.ours(expiry_ms)
        left_ms = self.expires_ms - sent_ms
        before_logins_ms = max(int(left_ms * LOGIN_AT) - SETTLED_MS, left_ms // 2)
        self.due_ms = sent_ms + max(min(int(left_ms * RENEW_AT), before_logins_ms), RETRY_MS)

    def is_last(self, now_ms: int) -> bool:
        """Whether a renewal would end sooner than the first one."""
        return now_ms + self._span_ms > self.max_ms

    def is_shortened(self, expiry_ms: int) -> bool:
        """Whether somebody else has given it this end. A broker that lags has one that it had before."""
        return self.ours(expiry_ms) < self.expires_ms and expiry_ms not in self._given

    def is_settled(self, now_ms: int) -> bool:
        """Whether all brokers know what was changed last."""
        return now_ms >= self.changed_ms + SETTLED_MS


class _User:
    """A principal. `before` is the token that `token` has replaced. Until `refused_until_ms`, `refusal` is
    why it gets none.
    """

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.making = trio.Lock()
        self.token: Token | None = None
        self.before: Token | None = None
        self.used_ms = 0
        self.refusal: UpstreamError | None = None
        self.refused_until_ms = 0

    def usable(self, now_ms: int) -> Token | None:
        """Return the token to log in with, None if there is none."""
        token, before = self.token, self.before
        if before is not None:
            if token is not None and now_ms < token.made_ms + SETTLED_MS and now_ms < before.expires_ms:
                return before
            self.before = None
        return token if token is not None and now_ms < token.expires_ms else None

    def refuse(self, refusal: UpstreamError, until_ms: int) -> None:
        self.refusal, self.refused_until_ms = refusal, until_ms


class TokenPrincipals:
    """The tokens of one gateway. `connected` returns the principals that have connections, `close` closes
    those of some.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        client: UpstreamClient,
        security: UpstreamSecurity,
        clock: Clock,
        connected: Callable[[], Collection[str]],
        close: CloseClients,
    ) -> None:
        self._config = config
        self._client = client
        self._security = security
        self._clock = clock
        self._connected = connected
        self._close = close
        self._refused = RefusedPrincipals(clock)
        self._users: dict[str, _User] = {}
        self._gateway: tuple[str, str] | None = None
        self._due: list[tuple[int, int, _User, Token]] = []
        self._number = 0
        self._nursery: trio.Nursery | None = None
        self._turns = trio.CapacityLimiter(AT_ONCE)
        self._reaper = Reaper("upstream-tokens", self._next_deadline, self._fire, clock)

    def __len__(self) -> int:
        return len(self._users)

    async def credentials(self, principal: str) -> ClientCredentials | None:
        if not principal:
            raise self._refused.error(principal, NAMELESS)
        user = self._user(principal)
        async with user.making:
            now_ms = self._clock.ms()
            token = user.usable(now_ms)
            if token is None:
                if user.refusal is not None and now_ms < user.refused_until_ms:
                    raise user.refusal.again()
                if user.token is not None and user.token.is_ending:
                    raise await self._revoke(user)
                token = user.token = await self._make(user)
                self._schedule(user, token, token.due_ms)
        return token.credentials

    async def refused(
        self, principal: str, credentials: ClientCredentials | None, error: UpstreamError
    ) -> None:
        user = self._users.get(principal)
        token = None if user is None else user.token
        if user is None or token is None or credentials is not token.credentials:
            # Another one has its place: the one before it is not to be used any longer.
            if user is not None:
                user.before = None
            await trio.sleep(FIRST_RETRY_S)
            return
        age_ms = self._clock.ms() - token.made_ms
        if age_ms < SETTLED_MS:
            await trio.sleep(max(FIRST_RETRY_S, age_ms / 1_000))
            return
        await self._renew(user, token)
        if user.token is None and user.refusal is not None:
            raise user.refusal.again()
        if self._clock.ms() >= token.expires_ms:
            return
        raise self._refused.error(principal, f"the cluster refuses its delegation token: {error}")

    def configure(self, config: UpstreamConfig) -> None:
        """Make the next tokens with the new login of the gateway."""
        self._config = config

    def forget(self, principal: str) -> None:
        user = self._users.pop(principal, None)
        if user is not None:
            self._expire(user)

    async def run(self) -> None:
        """Renew, replace and watch the tokens until cancelled. They stay at the cluster until they end."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                nursery.start_soon(self._reaper.run, name=self._reaper.name)
                while True:
                    await trio.sleep(WATCH_EVERY_MS / 1_000)
                    self._let_go()
                    await self._watch()
            finally:
                self._nursery = None

    # Making and keeping

    def _user(self, principal: str) -> _User:
        """Return a principal, as the one that was used last. Raises UpstreamError if there are too many."""
        user = self._users.pop(principal, None)
        if user is None:
            user = _User(principal)
            if len(self._users) >= MAX_PRINCIPALS:
                self._make_room(principal)
        self._users[principal] = user
        user.used_ms = self._clock.ms()
        return user

    def _make_room(self, principal: str) -> None:
        connected, now_ms = self._connected(), self._clock.ms()
        idle = next(
            (
                each.principal
                for each in self._users.values()
                if each.principal not in connected and now_ms >= each.refused_until_ms
            ),
            None,
        )
        if idle is None:
            raise self._refused.error(principal, TOO_MANY)
        self.forget(idle)

    async def _make(self, user: _User) -> Token:
        """Make a token. Raises UpstreamError: a refusal holds for `upstream.metadata.max.age.ms`, and another
        failure for RETRY_MS, so that all who wait for the same token learn of it.
        """
        own = self._security.credentials
        sent_ms = self._clock.ms()
        message = CreateDelegationTokenRequest(
            USER, user.principal, [CreatableRenewers(USER, self._gateway_name())], DEFAULT
        )
        try:
            made = await self._request(message, OWNERS_FROM)
        except UpstreamError as error:
            if error.reason is not Reason.VERSION:
                user.refuse(error, self._clock.ms() + RETRY_MS)
                raise
            raise self._refuse(user, OLD_CLUSTER) from error
        if made.error_code:
            raise self._refuse(user, self._advice(made.error_code, user.principal))
        if own is not None and made.token_requester_principal_name:
            self._gateway = own.name, made.token_requester_principal_name
        mechanism = self._config.sasl_mechanism
        token = Token(made, user.principal, SCRAM if mechanism == PLAIN else mechanism, sent_ms)
        if (made.principal_type, made.principal_name) != (USER, user.principal):
            self._start(self._expire_at_cluster, user, token)
            raise self._refuse(user, OTHER_OWNER)
        return token

    def _gateway_name(self) -> str:
        """Return the name of the gateway's principal at the cluster, which may derive it from the user name
        of the login in its own way: the cluster says so with the first token.
        """
        own = self._security.credentials
        name = "" if own is None else own.name
        return self._gateway[1] if self._gateway is not None and self._gateway[0] == name else name

    def _refuse(self, user: _User, reason: str) -> UpstreamError:
        refusal = self._refused.error(user.principal, reason)
        user.refuse(refusal, self._clock.ms() + self._config.metadata_max_age_ms)
        return refusal

    def _advice(self, code: int, principal: str) -> str:
        text = ADVICE.get(code)
        if text is None:
            return f"the cluster makes no delegation token for it: {name_of(code)}"
        return text.format(gateway=self._gateway_name(), owner=Principal(shown(principal)))

    async def _request(self, message: Any, version: int | None = None) -> Any:
        async with self._turns:
            timeout_ms = min(self._config.request_timeout_ms, TIMEOUT_MS)
            return await self._client.request(None, message, version, lane=LANE, timeout_ms=timeout_ms)

    # Renewing

    def _schedule(self, user: _User, token: Token, due_ms: int) -> None:
        """See to a token at `due_ms`, and not at the time that was chosen before."""
        if len(self._due) >= 2 * len(self._users) + SPARE:
            self._due = [each for each in self._due if self._is_next(*each)]
            heapq.heapify(self._due)
        self._number += 1
        token.turn = self._number
        heapq.heappush(self._due, (due_ms, token.turn, user, token))
        self._reaper.wake_by(due_ms)

    def _next_deadline(self) -> int | None:
        return self._due[0][0] if self._due else None

    def _fire(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            due = heapq.heappop(self._due)
            if self._is_next(*due):
                self._start(self._keep, *due[2:])

    def _is_next(self, _due_ms: int, turn: int, user: _User, token: Token) -> bool:
        return turn == token.turn and user.token is token and self._users.get(user.principal) is user

    def _start(self, work: Callable[[_User, Token], Awaitable[None]], user: _User, token: Token) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(work, user, token, name="upstream-token")

    async def _keep(self, user: _User, token: Token) -> None:
        """Renew or replace a token, or end with it. What fails is tried again while the token lasts; after
        that, the next login makes another one.
        """
        if token.is_ending:
            if self._clock.ms() >= token.expires_ms:
                await self._revoke(user)
            return
        is_last = token.is_last(self._clock.ms())
        try:
            # One that somebody has expired is not replaced, so it is renewed in any case.
            is_renewed = await self._renew(user, token)
            if user.token is token and (is_last or not is_renewed):
                await self._replace(user, token)
        except UpstreamError as error:
            now_ms = self._clock.ms()
            self._refused.note(user.principal, str(error), "cannot renew the delegation token of a client")
            retry_ms = max(now_ms + RETRY_MS, user.refused_until_ms)
            token.turn = 0
            if user.token is token and retry_ms < token.expires_ms:
                self._schedule(user, token, retry_ms)

    async def _renew(self, user: _User, token: Token) -> bool:
        """Return whether the token was renewed. One that the cluster does not know, before its own end, was
        expired by somebody. Raises UpstreamError.
        """
        sent_ms = self._clock.ms()
        reply: RenewDelegationTokenResponse = await self._request(
            RenewDelegationTokenRequest(token.hmac.open(), DEFAULT)
        )
        if user.token is token and reply.error_code in GONE and self._clock.ms() < token.expires_ms:
            await self._revoke(user)
        if reply.error_code or user.token is not token:
            return False
        token.renewed(reply.expiry_timestamp_ms, sent_ms)
        self._schedule(user, token, token.due_ms)
        return True

    async def _replace(self, user: _User, token: Token) -> None:
        """Raises UpstreamError; the token stays."""
        successor = await self._make(user)
        if user.token is not token:
            self._start(self._expire_at_cluster, user, successor)
            return
        user.token, user.before = successor, token
        self._schedule(user, successor, successor.due_ms)

    # Ending

    async def _watch(self) -> None:
        """Find tokens that somebody else has changed. A failure is no news of a token."""
        sent_ms = self._clock.ms()
        message = DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(USER, self._gateway_name())])
        users = [each for each in self._users.values() if each.token is not None]
        if not users:
            return
        try:
            reply: DescribeDelegationTokenResponse = await self._request(message)
        except UpstreamError:
            return
        if reply.error_code:
            return
        known = {each.token_id: each.expiry_timestamp for each in reply.tokens}
        for user in users:
            token = user.token
            if token is None or not token.is_settled(sent_ms) or sent_ms >= token.expires_ms:
                continue
            expiry_ms = known.get(token.id)
            if expiry_ms is None:
                self._start(self._keep, user, token)  # the controller knows
            elif token.is_shortened(expiry_ms):
                token.expires_ms, token.is_ending = token.ours(expiry_ms), True
                self._schedule(user, token, token.expires_ms)

    async def _revoke(self, user: _User) -> UpstreamError:
        """Keep a user out whose token somebody has expired, and return what its clients get."""
        user.token = user.before = None
        refusal = self._refused.error(user.principal, REVOKED)
        user.refuse(refusal, self._clock.ms() + BARRED_MS)
        await self._close((user.principal,), REVOKED)
        return refusal.again()

    def _let_go(self) -> None:
        """Forget principals without connections."""
        now_ms, connected = self._clock.ms(), self._connected()
        idle = [
            each.principal
            for each in self._users.values()
            if each.principal not in connected
            and now_ms >= max(each.used_ms + IDLE_MS, each.refused_until_ms)
        ]
        for principal in idle:
            self.forget(principal)

    def _expire(self, user: _User) -> None:
        for token in (user.token, user.before):
            if token is not None:
                self._start(self._expire_at_cluster, user, token)
        user.token = user.before = None

    async def _expire_at_cluster(self, user: _User, token: Token) -> None:
        """Leave no token behind that nobody uses. One that stays ends by itself."""
        try:
            await self._request(ExpireDelegationTokenRequest(token.hmac.open(), AT_ONCE_MS))
        except UpstreamError:
            return
