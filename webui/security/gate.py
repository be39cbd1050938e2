"""What a request must show before anything looks at it: the right host, the right origin, a known token, and
for changes the proof that a page of ours sent it.

Called by http.app with plain values, so that every rule is tested without a web server. Knows no framework,
no route and no role.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.control.commands import Actor, ChangeOrigin
from broker.control.views import TokenRow
from webui.console import Console
from webui.rest.problem import Problem
from webui.security.authenticator import actor_of
from webui.security.headers import HeaderLookup
from webui.security.hosts import host_name
from webui.security.origin import SAFE_METHODS, is_ours
from webui.security.sessions import Session

LONGEST_HEAD: Final = 16 * 1024
"""Bytes of the address and all headers."""

MOST_PARAMETERS: Final = 64


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request, as far as the gate looks at it."""

    method: str
    scheme: str
    path: str
    address: str
    headers: HeaderLookup
    cookies: Mapping[str, str]
    bearer: TokenRow | Problem | None = None
    """What its bearer token was found to be before it waited for its turn; None: it was not compared."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who knocked. `session` is None for a program with a bearer token."""

    token: TokenRow
    session: Session | None
    address: str

    def actor(self) -> Actor:
        return actor_of(
            self.token, self.address, ChangeOrigin.REST if self.session is None else ChangeOrigin.PAGE
        )


def check_origin(console: Console, request_info: RequestInfo, *, any_host: bool = False) -> None:
    """`any_host`: for health checks, which ask by whatever address they have and learn nothing. Raises
    Problem.
    """
    host = request_info.headers.get("Host", "")
    if not any_host and not console.hosts.allow(host) and not console.own_host.knows(host_name(host)):
        raise Problem(421, "The console is not known by this host name; see console.allowed.hosts.")
    if not is_ours(request_info.method, request_info.scheme, request_info.headers):
        raise Problem(403, "The request comes from another site.")


def check_head(target: bytes, fields: Iterable[tuple[bytes, bytes]]) -> None:
    """The front gives up on a head that grows longer than this; one that comes whole in a single read is met
    here. Raises Problem.
    """
    if len(target) + sum(len(name) + len(value) for name, value in fields) > LONGEST_HEAD:
        raise Problem(431, "The address and the headers are too long.", headers={"Connection": "close"})


def check_query(query: bytes) -> None:
    """No route knows as many parameters. Asked before they are taken apart. Raises Problem."""
    if query.count(b"&") >= MOST_PARAMETERS:
        raise Problem(400, f"There are more than {MOST_PARAMETERS} parameters.")


def check_framing(request_info: RequestInfo) -> None:
    """With two lengths a proxy before us may see one request where we see two (RFC 9112, 6.3): neither is
    answered, and the connection ends. Raises Problem.
    """
    if request_info.headers.get("Transfer-Encoding") and request_info.headers.get("Content-Length"):
        detail = "The request has a Content-Length and a Transfer-Encoding."
        raise Problem(400, detail, headers={"Connection": "close"})


def check_body(request_info: RequestInfo) -> None:
    """For requests that are to have a body. A form, or text that happens to be JSON, can be sent by any page;
    JSON by its name cannot. Raises Problem.
    """
    media = request_info.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Problem(415, "The body must be application/json.")


def identity_of(console: Console, request_info: RequestInfo) -> Identity:
    """Raises Problem 401, 403 or 429."""
    authorization = request_info.headers.get("Authorization")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Problem(401, "Only bearer tokens are known here.", headers={"WWW-Authenticate": "Bearer"})
        return Identity(_bearer(console, request_info, secret), None, request_info.address)
    session = session_of(console, request_info)
    if session is None:
        raise Problem(401, "A token is needed.", headers={"WWW-Authenticate": "Bearer"})
    if request_info.method not in SAFE_METHODS and not session.owns(
        request_info.headers.get("X-CSRF-Token", "")
    ):
        raise Problem(403, "X-CSRF-Token is missing or not this session's.")
    return Identity(session.token, session, request_info.address)


def _bearer(console: Console, request_info: RequestInfo, secret: str) -> TokenRow:
    """One request is one guess: what was found before it waited is not looked up again, but a token may have
    been revoked meanwhile.
    """
    match request_info.bearer:
        case None:
            return console.authenticator.bearer(secret.strip(), request_info.address)
        case Problem() as problem:
            raise problem
        case token if console.authenticator.knows(token):
            return token
    raise Problem(401, "This token is not known here.", headers={"WWW-Authenticate": "Bearer"})


def is_still_signed_in(console: Console, request_info: RequestInfo, identity: Identity) -> bool:
    """Asked by live streams with every event. Watching counts as using: nobody watches a page without looking
    now and then, and pages that are not seen close their stream.
    """
    if identity.session is None:
        return console.authenticator.knows(identity.token)
    return session_of(console, request_info) is not None


def session_of(console: Console, request_info: RequestInfo) -> Session | None:
    secret = request_info.cookies.get(cookie_name(console, request_info.scheme))
    return None if secret is None else console.authenticator.session(secret)


def cookie_name(console: Console, scheme: str) -> str:
    """The `__Host-` prefix makes browsers insist on Secure, Path=/ and no Domain; it needs TLS."""
    return f"__Host-weir-{console.port}" if scheme == "https" else f"weir-{console.port}"
