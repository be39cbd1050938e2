"""Authentication: bearer tokens for programs, session cookies for browsers.

Part of webui.console, called by webui.security.gate and the login page. Determines name and role;
broker.controller decides what a role may do. When a token is revoked, replaced or expires, its sessions end
with their next request.
"""

from collections.abc import Callable
from typing import Final

from broker.config.sections.console import ConsoleConfig
from broker.controller.commands import Role
from broker.controller.rows.broker import TokenRow
from webui.backend import Backend
from webui.problem import Problem
from webui.security.backoff import Guess, GuessBackoff
from webui.security.passwords import Passwords, too_often
from webui.security.sessions import Session, Sessions

LONGEST_SECRET: Final = 1_024
PROVIDER: Final = "single sign-on"
OF_PROVIDER: Final = -1
"""The version of a row that stands for a user of single sign-on."""

RECENT_MS: Final = 300_000
"""How long a login by single sign-on proves who asks; ours."""

EXPIRED: Final = "Your token has expired; an administrator can renew it."
CHANGED: Final = "Your token was renewed, revoked or changed."


class Authenticator:
    """Tokens and sessions. `now_ms` is a monotonic clock, `wall_ms` the time of day for expiry."""

    __slots__ = (
        "_backend",
        "_backoff",
        "_current",
        "_current_version",
        "_now_ms",
        "_sessions",
        "_used_ms",
        "_wall_ms",
        "passwords",
    )

    def __init__(
        self,
        backend: Backend,
        settings: ConsoleConfig,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._backend = backend
        self._backoff = GuessBackoff()
        self._current: frozenset[TokenRow] = frozenset()
        self._current_version = -1
        self._now_ms = now_ms
        self.passwords = Passwords(backend, self._backoff, now_ms)
        self._sessions = Sessions(
            settings.session_idle_ms, settings.session_max_ms, settings.max_sessions_per_token
        )
        self._used_ms: dict[str, int] = {}
        self._wall_ms = wall_ms

    def holder(self, secret: str) -> TokenRow | None:
        """Return the token of a secret, or None. Counts no guess, so clients' secrets must go through
        `bearer`.
        """
        metadata = self._backend.views.metadata
        return metadata.identify(secret) if 0 < len(secret) <= LONGEST_SECRET else None

    def guess(self, address: str, secret: str | None = None) -> Guess:
        """Count a guess of this address before its secret is compared, or even received (`secret` None). The
        caller ends it. Raises Problem 429 if the address must wait.
        """
        now_ms = self._now_ms()
        wait_ms = self._backoff.wait_ms(address, now_ms, secret)
        if wait_ms:
            raise too_often(wait_ms)
        return self._backoff.begin(address, now_ms)

    def bearer(self, secret: str, address: str, guess: Guess | None = None) -> TokenRow:
        """Return the token of a secret. `guess` is the guess already counted for it.

        Raises Problem 401, or 429 if the address must wait.
        """
        with guess or self.guess(address, secret) as guess:
            token = self.holder(secret)
            if token is None:
                guess.wrong(secret, self._now_ms())
                detail = "Unknown token."
                raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
            guess.right(secret)
        self._note_use(token)
        return token

    def _note_use(self, token: TokenRow) -> None:
        """Note the use of a token. Raises Problem 401 if it has expired."""
        if token.has_expired(self._wall_ms()):
            detail = "The token has expired; an administrator can renew it."
            raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
        self._used_ms[token.name] = self._now_ms()

    def sign_in(
        self, secret: str, address: str, old_cookie: str | None, guess: Guess | None = None
    ) -> tuple[str, Session]:
        """Open a session and return it with its cookie. Ends the browser's former session. Raises Problem."""
        return self._open(self.bearer(secret, address, guess), old_cookie)

    def sign_in_by_link(self, code: str, address: str, old_cookie: str | None) -> tuple[str, Session]:
        """Open a session by a link's one-time code. Raises Problem 401, or 429 if the address must wait."""
        with self.guess(address) as guess:
            token = self._backend.redeem(code, self._now_ms())
            if token is None:
                guess.wrong(code, self._now_ms())
                detail = "Invalid link: used before, or older than fifteen minutes."
                raise Problem(401, f"{detail} Run weir console-link for a new one.")
            guess.right()
        self._note_use(token)
        return self._open(token, old_cookie)

    async def require_proof(self, token: TokenRow, secret: str, address: str) -> None:
        """Confirm a signed-in user by token, password, or the code of a new link. Raises Problem as
        `Passwords.prove` does.
        """
        with self.guess(address) as guess:
            shown = self._backend.redeem(secret, self._now_ms())
            if shown is None or shown.name != token.name:
                await self.passwords.prove(token.name, secret, address, guess)
            guess.right()

    async def sign_in_by_name(
        self, name: str, password: str, address: str, old_cookie: str | None, guess: Guess | None = None
    ) -> tuple[str, Session]:
        """Open a session by name and password. Raises Problem."""
        token = await self.passwords.prove(name, password, address, guess)
        self._note_use(token)
        return self._open(token, old_cookie)

    def sign_in_by_provider(
        self, name: str, role: Role, logout_url: str, old_cookie: str | None
    ) -> tuple[str, Session]:
        """Open a session of a user whom the provider of single sign-on has identified. It has no token."""
        row = TokenRow(name, role.name.lower(), self._wall_ms(), PROVIDER, OF_PROVIDER)
        return self._open(row, old_cookie, logout_url)

    def is_recent_sign_in(self, session: Session) -> bool:
        """Whether the user of single sign-on has logged in a moment ago, which proves who asks."""
        age_ms = self._now_ms() - session.opened_at_ms
        return is_of_provider(session.token) and age_ms < RECENT_MS

    def _open(self, token: TokenRow, old_cookie: str | None, logout_url: str = "") -> tuple[str, Session]:
        if old_cookie is not None:
            self._sessions.close(old_cookie)
        return self._sessions.open(token, self._now_ms(), logout_url)

    def session(self, cookie: str) -> Session | None:
        """Return the session of a cookie and note its use, or None."""
        session = self._sessions.find(cookie, self._now_ms())
        if session is not None and not self.knows(session.token):
            self._sessions.close(cookie, EXPIRED if session.token.has_expired(self._wall_ms()) else CHANGED)
            return None
        if session is not None:
            self._used_ms[session.token.name] = session.seen_at_ms
        return session

    def why_ended(self, cookie: str) -> str:
        """Return why the session of a cookie ended, as a sentence for its user; "" if that is not known."""
        return self._sessions.reason(cookie)

    def sign_out(self, cookie: str) -> None:
        self._sessions.close(cookie)

    def sign_out_everywhere(self, name: str | None) -> int:
        """End every session of the token of this name, or of all tokens (None), and return their number.
        Streams call `session` for each snapshot, and end too.
        """
        return self._sessions.close_all(name, self._now_ms())

    def knows(self, token: TokenRow) -> bool:
        """Return whether the token is unchanged: not revoked, replaced, expired, or given another role. A
        user of single sign-on stays known while the session lasts.
        """
        if is_of_provider(token):
            return True
        version = self._backend.views.metadata.version
        if version != self._current_version:
            self._current = frozenset(self._backend.views.metadata.tokens())
            self._current_version = version
            names = {each.name for each in self._current}
            self._used_ms = {name: ms for name, ms in self._used_ms.items() if name in names}
        return token in self._current and not token.has_expired(self._wall_ms())

    def unused_for_ms(self, name: str) -> int | None:
        """Return how long ago a token or its session was last used; None if not since the start."""
        used_ms = self._used_ms.get(name)
        return None if used_ms is None else self._now_ms() - used_ms


def is_of_provider(token: TokenRow) -> bool:
    """Whether the row stands for a user of single sign-on, and for no token."""
    return token.version == OF_PROVIDER


def role_of(token: TokenRow) -> Role:
    return Role[token.role.upper()]
