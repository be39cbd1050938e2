"""A client of the console's REST API: URL and token, JSON requests and responses.

Used by broker.commands.quotas and broker.commands.event_stream. Independent of the resources; turns every
failure into a message for the user.
"""

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from broker.commands.plain import shown

DEFAULT_CONSOLE: Final = "http://127.0.0.1:8080"
TOKEN_VARIABLES: Final = ("WEIR_TOKEN", "WEIR_ADMIN_TOKEN")
PATIENCE_S: Final = 30


class RefusedError(click.ClickException):
    """The console's refusal. `problem` is its problem document; without one it holds only the status."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = problem
        self.detail = str(problem.get("detail") or problem.get("title"))
        self.where = str(problem.get("where") or "")
        super().__init__(f"{self.detail} ({self.where})" if self.where else self.detail)


@dataclass(frozen=True, slots=True)
class Console:
    """The console's address and credentials.

    Every request carries `token`. `trust` holds the accepted certificates; None uses the system's.
    """

    url: str
    token: str
    trust: ssl.SSLContext | None = None

    @classmethod
    def at(cls, url: str, token: str, ca_file: str | None = None) -> "Console":
        """Return a console. Raises click.ClickException for an invalid URL, token or certificate file."""
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

    def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Send a request and return the JSON object of the response.

        Raises RefusedError for a refusal and click.ClickException if no console responds.
        """
        # Imported late: the broker's start must not pay for these modules.
        import urllib.error
        import urllib.parse
        import urllib.request
        from http.client import HTTPException

        from broker.commands.redirects import opener

        given = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url.rstrip('/')}{path}" + (f"?{urllib.parse.urlencode(given)}" if given else "")
        try:
            request = urllib.request.Request(  # noqa: S310 - the scheme was checked
                url,
                None if body is None else json.dumps(body, allow_nan=False).encode(),
                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
                method=method,
            )
            with opener(self.trust, self.redirected).open(request, timeout=PATIENCE_S) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(problem_of(error.read(), f"{error.code} {error.reason}")) from error
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise click.ClickException(
                f"no console responds at {self.url}: {shown(str(reason).strip())}"
            ) from error
        if not isinstance(answer, dict):
            raise click.ClickException(f"the response from {self.url} is not from a console")
        return answer

    def redirected(self, target: str) -> click.ClickException:
        """Return the error for a redirect that the token must not follow."""
        return click.ClickException(
            f"{self.url} redirects to {shown(target)}, which never receives the token: "
            "give the console's own address with --console"
        )


def console_options(command: Any) -> Any:
    """Add the options for the console's URL and CA file: arguments `url` and `ca_file`."""
    where = click.option(
        "--console",
        "url",
        envvar="WEIR_CONSOLE",
        default=DEFAULT_CONSOLE,
        show_default=True,
        help="The console's URL.",
    )
    trust = click.option(
        "--ca-file",
        envvar="WEIR_CA_FILE",
        help="PEM file of the trusted CA certificates, in place of the system's.",
    )
    return where(trust(command))


def _query_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_of(body: bytes, status: str) -> dict[str, Any]:
    """Return the problem document in `body`, or one with the title `status`."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"title": status}
