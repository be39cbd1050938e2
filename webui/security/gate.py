"""Checks of every request: host, origin, authentication, and for changes a CSRF token.

Called by http.app with plain values, so each rule is tested without a web server. Independent of the
framework, routes and roles.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from broker.controller.commands import Actor, ChangeOrigin
from broker.controller.rows.broker import TokenRow
from webui.problem import Problem
from webui.problem_types import CROSS_SITE
from webui.security.authenticator import Authenticator, role_of
from webui.security.headers import HeaderLookup
from webui.security.origin import SAFE_METHODS, AllowedHosts, OwnHost, host_name, is_allowed_origin
from webui.security.sessions import Session

LONGEST_HEAD: Final = 16 * 1024
"""Bytes of the address and all headers."""

MAX_PARAMETERS: Final = 64


class RequestInfo(msgspec.Struct, frozen=True):
    """The data of a request that the checks use."""

    method: str
    scheme: str
    path: str
    address: str
    headers: HeaderLookup
    cookies: Mapping[str, str]
    bearer: TokenRow | Problem | None = None
    """The result of its bearer token's comparison before the request waited; None if it was not compared."""


class Identity(msgspec.Struct, frozen=True):
    """An authenticated client. `session` is None for a program with a bearer token."""

    token: TokenRow
    session: Session | None
    address: str

    def actor(self) -> Actor:
        origin = ChangeOrigin.REST if self.session is None else ChangeOrigin.PAGE
        return Actor(self.token.name, role_of(self.token), self.address, origin)


def check_head(target: bytes, fields: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a long head that arrives in a single read; http_server refuses one that grows beyond the limit.
    Raises Problem.
    """
    if len(target) + sum(len(name) + len(value) for name, value in fields) > LONGEST_HEAD:
        detail = f"URL and headers too long: at most {LONGEST_HEAD} bytes are allowed."
        raise Problem(431, detail, headers={"Connection": "close"})


def check_encoding(target: bytes) -> None:
    """Refuse a path or query that is not UTF-8: with U+FFFD for each wrong byte, several names would be one.
    Raises Problem.
    """
    try:
        unquote_to_bytes(target).decode()
    except UnicodeDecodeError:
        raise Problem(400, "The URL is not encoded in UTF-8.") from None


def check_query(query: bytes) -> None:
    """Refuse too many parameters before parsing them; no route has as many. Raises Problem."""
    if query.count(b"&") >= MAX_PARAMETERS:
        raise Problem(400, f"Too many parameters: at most {MAX_PARAMETERS} are allowed.")


def check_framing(request_info: RequestInfo) -> None:
    """Refuse a request with two lengths: a proxy in front may see one request where the console sees two (RFC
    9112, 6.3). The connection ends. Raises Problem.
    """
    if request_info.headers.get("Transfer-Encoding") and request_info.headers.get("Content-Length"):
        detail = "Conflicting headers: Content-Length and Transfer-Encoding."
        raise Problem(400, detail, headers={"Connection": "close"})


def check_body(request_info: RequestInfo, *also: str) -> str:
    """Check and return the media type of a request with a body: application/json, or one of `also`. Any site
    can send a form, or JSON as plain text; only this site can send these types. Raises Problem.
    """
    media = request_info.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    allowed = ("application/json", *also)
    if media not in allowed:
        raise Problem(415, f"Unsupported media type {media!r:.100}, expected {' or '.join(allowed)}.")
    return media


class Gate(msgspec.Struct, frozen=True):
    """The checks that depend on the console's names, tokens and sessions. `port` is the bound port. It is
    part of the cookie's name, since cookies ignore ports and two brokers may share a host.
    """

    authenticator: Authenticator
    hosts: AllowedHosts
    own_host: OwnHost
    port: int

    def check_origin(self, request_info: RequestInfo, *, any_host: bool = False) -> None:
        """Check host and origin. Health checks pass with `any_host`: probes use any address, and their
        response reveals nothing. Raises Problem.
        """
        host = request_info.headers.get("Host", "")
        if not any_host and not self.hosts.allow(host) and not self.own_host.knows(host_name(host)):
            raise Problem(421, f"Unknown host {host!r:.100}; add it to console.allowed.hosts.")
        if not is_allowed_origin(request_info.method, request_info.scheme, request_info.headers):
            raise Problem(403, "Cross-site request refused.", kind=CROSS_SITE)

    def identity(self, request_info: RequestInfo) -> Identity:
        """Authenticate a request. Raises Problem 401, 403 or 429."""
        authorization = request_info.headers.get("Authorization")
        if authorization is not None:
            scheme, _, secret = authorization.partition(" ")
            if scheme.lower() != "bearer":
                detail = "Unsupported authorization scheme, expected Bearer."
                raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
            return Identity(self._bearer(request_info, secret), None, request_info.address)
        session = self.session(request_info)
        if session is None:
            detail = self.why_ended(request_info) or "Authentication required."
            raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
        if request_info.method not in SAFE_METHODS and not session.owns(
            request_info.headers.get("X-CSRF-Token", "")
        ):
            raise Problem(403, "Missing or invalid X-CSRF-Token.", kind=CROSS_SITE)
        return Identity(session.token, session, request_info.address)

    def _bearer(self, request_info: RequestInfo, secret: str) -> TokenRow:
        """Return the token compared before the request waited, so that one request is one guess, unless it
        was revoked meanwhile.
        """
        match request_info.bearer:
            case None:
                return self.authenticator.bearer(secret.strip(), request_info.address)
            case Problem() as problem:
                raise problem
            case token if self.authenticator.knows(token):
                return token
        raise Problem(401, "Unknown token.", headers={"WWW-Authenticate": "Bearer"})

    def is_still_signed_in(self, request_info: RequestInfo, identity: Identity) -> bool:
        """Return whether the client of a stream is still authenticated; called for every event. An open
        stream counts as use of its session, since hidden pages close their stream.
        """
        if identity.session is None:
            return self.authenticator.knows(identity.token)
        return self.session(request_info) is not None

    def session(self, request_info: RequestInfo) -> Session | None:
        secret = request_info.cookies.get(self.cookie_name(request_info.scheme))
        return None if secret is None else self.authenticator.session(secret)

    def why_ended(self, request_info: RequestInfo) -> str:
        """Return why the browser's session ended; "" without a session or a known reason."""
        secret = request_info.cookies.get(self.cookie_name(request_info.scheme))
        return "" if secret is None else self.authenticator.why_ended(secret)

    def cookie_name(self, scheme: str) -> str:
        """Return the name of the session cookie. The `__Host-` prefix, which requires TLS, makes browsers
        enforce Secure, Path=/ and no Domain.
        """
        return f"__Host-weir-{self.port}" if scheme == "https" else f"weir-{self.port}"
