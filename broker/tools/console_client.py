"""A client of the console's REST API: URL and token, JSON requests and responses.

Used by the commands that ask a running broker. Independent of the resources; turns every failure into a
message for the user.
"""

import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

import click
import msgspec

from broker.tools.escaping import printable
from webui.path_names import path_name

DEFAULT_CONSOLE: Final = "http://127.0.0.1:8080"
TOKEN_VARIABLES: Final = ("WEIR_TOKEN", "WEIR_ADMIN_TOKEN")
TIMEOUT_S: Final = 30
PAGE: Final = 1_000
NO_CONTENT: Final = 204
COMPLETIONS: Final = 100
COMPLETED_WITHIN_S: Final = 2

_PORTS: Final = {"http": 80, "https": 443}
_OWN_HOST: Final = re.compile(r"^(http://)[^/@:]+\.localhost(?=[:/]|$)", re.IGNORECASE)
"""The console's name in a browser on its machine, which few resolvers know (RFC 6761)."""


NOT_FOUND: Final = 404


class RefusedError(click.ClickException):
    """The console's refusal. `problem` is its problem document; without one it holds only the status."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = problem
        self.detail = str(problem.get("detail") or problem.get("title"))
        self.where = str(problem.get("where") or "")
        self.status = problem.get("status")
        self.code = problem.get("code")
        has_place = not self.where or self.where in self.detail
        super().__init__(self.detail if has_place else f"{self.detail} ({self.where})")


class Console(msgspec.Struct, frozen=True):
    """The console's address and credentials.

    Every request carries `token`. `trust` holds the accepted certificates; None uses the system's.
    """

    url: str
    token: str
    trust: ssl.SSLContext | None = None
    timeout_s: float = TIMEOUT_S

    @classmethod
    def at(cls, url: str, token: str, ca_file: str | None = None) -> "Console":
        """Return a console. Raises click.ClickException for an invalid URL, token or certificate file."""
        url = _OWN_HOST.sub(r"\1localhost", url)
        if not url.startswith(("http://", "https://")):
            raise click.ClickException(f"invalid console URL: {url} (expected http:// or https://)")
        if not (token.isascii() and token.isprintable()):
            raise click.ClickException("invalid token: expected printable ASCII")
        if ca_file is None:
            return cls(url, token)
        if not url.startswith("https://"):
            raise click.ClickException(f"--ca-file needs an https URL, not {url}")
        try:
            return cls(url, token, ssl.create_default_context(cafile=ca_file))
        except OSError as error:
            reason = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM certificates"
            raise click.ClickException(f"{ca_file}: {reason}") from error

    @classmethod
    def from_environment(cls, url: str, ca_file: str | None = None) -> "Console":
        """Return a console with the token from the environment; other users of the machine can see
        arguments.
        """
        token = next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), None)
        if token is None:
            raise click.ClickException(f"no token: set {' or '.join(TOKEN_VARIABLES)}")
        return cls.at(url, token, ca_file)

    def request(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Send a request and return the JSON object of the response. A `body` of bytes is a YAML file.

        A response without content is an empty object. Raises RefusedError for a refusal and
        click.ClickException if no console responds.
        """
        given = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url.rstrip('/')}{path}" + (f"?{urlencode(given)}" if given else "")
        media = "application/yaml" if isinstance(body, bytes) else "application/json"
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body, allow_nan=False).encode()
            prepared = urllib.request.Request(  # noqa: S310 - the scheme was checked
                url,
                body,
                {"Authorization": f"Bearer {self.token}", "Content-Type": media},
                method=method,
            )
            with self._opener().open(prepared, timeout=self.timeout_s) as response:
                found = {} if response.status == NO_CONTENT else json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(problem_of(error.read(), f"{error.code} {error.reason}")) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise click.ClickException(
                f"no console responds at {self.url}: {printable(str(reason).strip())}; give its address by"
                " --console or WEIR_CONSOLE"
            ) from error
        if not isinstance(found, dict):
            raise click.ClickException(f"the response from {self.url} is not from a console")
        return found

    def each(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of all pages of a list. Raises as `request` does."""
        cursor = None
        while True:
            page = self.request("GET", path, {**(query or {}), "limit": PAGE, "cursor": cursor})
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def _opener(self) -> urllib.request.OpenerDirector:
        https = urllib.request.HTTPSHandler(context=self.trust)
        return urllib.request.build_opener(https, _WithinOrigin(self))

    def redirected(self, target: str) -> click.ClickException:
        """Return the error for a redirect that the token must not follow."""
        return click.ClickException(
            f"{self.url} redirects to {printable(target)}, which never receives the token: "
            "give the console's own address with --console"
        )


class _WithinOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects of GET within the origin and refuses any other.

    urllib follows a redirect to any host with all headers, including Authorization, and turns a redirected
    POST into a GET, whose response looks as if the change had been made.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        target = headers.get("Location") or headers.get("URI")
        if target is not None:
            target = urljoin(req.full_url, target)
            if req.get_method() != "GET" or _origin(target) != _origin(req.full_url):
                fp.close()
                raise self._console.redirected(target)
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _origin(url: str) -> tuple[str, str | None, int | None, str | None]:
    """Return scheme, host and port (RFC 6454), and the user, which RFC 6454 leaves out. Raises ValueError."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme), parts.username


def console_options(command: Any) -> Any:
    """Add the options for the console's URL and CA file: arguments `url` and `ca_file`."""
    where = click.option(
        "--console",
        "url",
        envvar="WEIR_CONSOLE",
        show_envvar=True,
        default=DEFAULT_CONSOLE,
        show_default=True,
        help="The console's URL.",
    )
    trust = click.option(
        "--ca-file",
        envvar="WEIR_CA_FILE",
        show_envvar=True,
        help="PEM file of the trusted CA certificates, in place of the system's.",
    )
    return where(trust(command))


def pass_console(command: Any) -> Any:
    """Pass the console to a command when it runs, so that its help needs no token."""

    @wraps(command)
    def with_console(make: Callable[[], Console], *arguments: Any, **options: Any) -> Any:
        return command(make(), *arguments, **options)

    return click.pass_obj(with_console)


def completed(path: str, field: str) -> Any:
    """Return a shell completion of names: those rows of the list at `path` whose `field` begins as typed. A
    console that does not answer completes nothing.
    """

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        while context.parent is not None and "url" not in context.params:
            context = context.parent
        try:
            console = Console.from_environment(context.params["url"], context.params["ca_file"])
            console = msgspec.structs.replace(console, timeout_s=COMPLETED_WITHIN_S)
            rows = console.request("GET", path, {"search": incomplete, "limit": COMPLETIONS})["items"]
        except (click.ClickException, KeyError):
            return []
        names = dict.fromkeys(str(row[field]) for row in rows)
        return [name for name in names if name.startswith(incomplete) and name.isprintable()]

    return complete


@contextmanager
def missing(message: str, *of_others: str) -> Iterator[None]:
    """Raise click.ClickException with `message` if the console does not know what the path of a request
    names. Kafka's error codes in `of_others` are of other names in the request.
    """
    try:
        yield
    except RefusedError as error:
        if error.status == NOT_FOUND and error.code not in of_others:
            raise click.ClickException(message) from error
        raise


def in_path(name: str) -> str:
    """Return a name as one segment of a path (webui.path_names)."""
    return quote(path_name(name), safe="")


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_of(body: bytes, status: str) -> dict[str, Any]:
    """Return the problem document in `body`, or one with the title `status`."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"title": status}
