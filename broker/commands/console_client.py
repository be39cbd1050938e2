"""The console's REST API, as the command line asks it: a URL and a token, JSON in and out.

Used by broker.commands.quotas and, for its streams, by broker.commands.event_stream. Knows nothing of what is
asked for; says in words why there is no answer.
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
    """What the console said no to. `problem` is its problem document, with the status alone where it sent
    none.
    """

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = problem
        self.detail = str(problem.get("detail") or problem.get("title"))
        self.where = str(problem.get("where") or "")
        super().__init__(f"{self.detail} ({self.where})" if self.where else self.detail)


@dataclass(frozen=True, slots=True)
class Console:
    """`token` is sent with every request; neither is checked before. `trust` has whose certificates are good,
    None: whom the system trusts.
    """

    url: str
    token: str
    trust: ssl.SSLContext | None = None

    @classmethod
    def at(cls, url: str, token: str, ca_file: str | None = None) -> "Console":
        """Raises click.ClickException where these cannot be a console's URL, a token and a file of
        certificates.
        """
        if not url.startswith(("http://", "https://")):
            raise click.ClickException(f"{url} is not the URL of a console")
        if not (token.isascii() and token.isprintable()):
            raise click.ClickException("what is given as a token is none")
        if ca_file is None:
            return cls(url, token)
        if not url.startswith("https://"):
            raise click.ClickException(f"a file of certificates is for https, and not for {url}")
        try:
            return cls(url, token, ssl.create_default_context(cafile=ca_file))
        except OSError as error:
            reason = error.strerror if not isinstance(error, ssl.SSLError) else "no certificates as PEM"
            raise click.ClickException(f"{ca_file}: {reason}") from error

    @classmethod
    def from_environment(cls, url: str, ca_file: str | None = None) -> "Console":
        """With the token that the environment has; an argument would be seen by everybody on the machine."""
        token = next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), None)
        if token is None:
            raise click.ClickException(f"a token is needed in {' or '.join(TOKEN_VARIABLES)}")
        return cls.at(url, token, ca_file)

    def ask(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The JSON object that is answered. Raises RefusedError, and click.ClickException where nothing like
        a console answers.
        """
        # Here and not above: the broker's own start is not to wait for them.
        import urllib.error
        import urllib.parse
        import urllib.request
        from http.client import HTTPException

        from broker.commands.redirects import opener

        given = {name: _written(value) for name, value in (query or {}).items() if value is not None}
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
                f"no console answers at {self.url}: {shown(str(reason).strip())}"
            ) from error
        if not isinstance(answer, dict):
            raise click.ClickException(f"what answers at {self.url} is no console")
        return answer

    def redirected(self, target: str) -> click.ClickException:
        """What is said about a redirect that the token must not follow."""
        return click.ClickException(
            f"{self.url} redirects to {shown(target)}, and the token is not sent there: "
            "name the console's own address with --console"
        )


def console_options(command: Any) -> Any:
    """Where it is, and whose certificate is good there: arguments `url` and `ca_file`."""
    where = click.option(
        "--console", "url", envvar="WEIR_CONSOLE", default=DEFAULT_CONSOLE, show_default=True, help="Its URL."
    )
    trust = click.option(
        "--ca-file",
        envvar="WEIR_CA_FILE",
        help="A PEM file of the certificates that vouch for it, in place of those that the system trusts.",
    )
    return where(trust(command))


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_of(body: bytes, status: str) -> dict[str, Any]:
    """The problem document in `body`, or one that says `status`."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {"title": status}
