"""The broker of the demo: one of its own that leaves nothing behind, or one that runs already.

Used by demo.__main__, demo.pictures and demo.scene. Knows the REST API, and nothing of tenants.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from broker.security.console_links import link_with, make_code, read_console_link

READY_WITHIN_S: Final = 15.0
DRAINED_WITHIN_S: Final = 20.0
NOT_READY: Final = 503

PORT_STEP: Final = 1_000
"""To the next ports to try, where one is taken."""


@dataclass(frozen=True)
class Place:
    """`console` is an address without a scheme, as `bootstrap` is; `token` an administrator's. `directory` is
    where the broker keeps its data, where that is known.
    """

    bootstrap: str
    console: str
    token: str
    directory: str = ""

    @property
    def url(self) -> str:
        """For one browser: it logs in by it where the broker is our own."""
        if not self.directory:
            return f"http://{self.console}/"
        url, key = read_console_link(self.directory)
        return link_with(url, make_code(key, time.monotonic_ns() // 1_000_000))

    def limit(
        self,
        client_id: str,
        bytes_per_s: int | None,
        *,
        key: str = "producer_byte_rate",
        shadow: bool = False,
    ) -> None:
        """Sets a limit of a client id through the REST API, or removes it; `shadow`: it is measured and not
        enforced.
        """
        value = {"remove": True} if bytes_per_s is None else {"value": bytes_per_s}
        entry: dict[str, Any] = {
            "entity": {"client-id": client_id},
            "ops": [{"key": key, **value}],
        }
        if shadow and bytes_per_s is not None:
            entry["shadow"] = True
        self._ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})

    def limit_addresses(self, connections_per_s: int | None) -> None:
        """How many connections every address may make in a second."""
        path = "/api/v1/ip-quotas/%3Cdefault%3E"
        if connections_per_s is None:
            with suppress(urllib.error.HTTPError):  # somebody has removed it in the console
                self._ask("DELETE", path)
        else:
            self._ask("PUT", path, {"connection_creation_rate": connections_per_s})

    def ask_for_metrics(self, wanted: bool) -> None:
        """Whether clients are asked for their own metrics, every five seconds. (KIP-714)"""
        path = "/api/v1/client-metrics/weir-demo"
        if wanted:
            self._ask("PUT", path, {"metrics": ["*"], "interval.ms": 5_000})
        else:
            with suppress(urllib.error.HTTPError):  # somebody has removed it in the console
                self._ask("DELETE", path)

    def alert(self, name: str, rule: dict[str, Any]) -> None:
        """Make an alert rule, with the fields of the REST API."""
        self._ask("PUT", f"/api/v1/alert-rules/{name}", rule)

    def wait_until_ready(self, has_ended: Callable[[], object] = lambda: None) -> None:
        """Returns when Kafka clients are answered. Raises ClickException when that takes too long, when
        the broker, whose status `has_ended` tells, is not there any more, or when it does not take the token.
        """
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                self._ask("GET", "/readyz")
                self._ask("GET", "/api/v1/overview")
            except (urllib.error.URLError, ConnectionError) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code != NOT_READY:
                    raise click.ClickException(f"http://{self.console} answers {error}") from error
                if has_ended() is not None or time.monotonic() > deadline:
                    raise click.ClickException(
                        f"no broker answers at http://{self.console}: {error}"
                    ) from error
                time.sleep(0.1)
            else:
                return

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.console}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - the scheme is ours
            pass


def free_address(address: str, offsets: Sequence[int] = (0,)) -> str:
    """Return `address`, or the same with the port plus a multiple of `PORT_STEP`: the first where all
    ports of `offsets` above it are free now. Raises ClickException if there is none.
    """
    host, _, first = address.rpartition(":")
    for port in range(int(first), 65_536 - max(offsets), PORT_STEP):
        if all(_is_free(host, port + offset) for offset in offsets):
            return f"{host}:{port}"
    raise click.ClickException(f"no port is free at {host}: {first} and each {PORT_STEP} above it are taken")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as listener:
        # As the broker binds: connections of an earlier one that are not quite over take no port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
    return True


@contextmanager
def own_broker(
    bootstrap: str, console: str, *settings: str, command: str = "serve", token: str = ""
) -> Iterator[Place]:
    """A broker in a temporary folder, which is gone afterwards; `settings` are more of its own. With
    `command="gateway"` it is a gateway.
    """
    token = token or secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="weir-demo-") as data, tempfile.TemporaryFile() as log:
        place = Place(bootstrap, console, token, data)
        broker = subprocess.Popen(  # noqa: S603 - our own program, found beside this Python
            [
                str(Path(sys.executable).with_name("weir")),
                command,
                f"--override=listeners=PLAINTEXT://{bootstrap}",
                f"--override=console.listener={console}",
                f"--override=log.dirs={data}",
                *(f"--override={setting}" for setting in settings),
            ],
            env=os.environ | {"WEIR_ADMIN_TOKEN": place.token},
            stdout=subprocess.DEVNULL,
            stderr=log,  # refusals by the dozen, between the lines of the demo
            start_new_session=True,  # Ctrl-C is for this program, which ends the tenants first
        )
        try:
            place.wait_until_ready(broker.poll)
            yield place
        finally:
            _end(broker)
        if broker.returncode:
            log.seek(0)
            said = log.read().decode(errors="replace")[-2_000:]
            raise click.ClickException(f"weir {command} ended with status {broker.returncode}: {said}")


def _end(broker: "subprocess.Popen[bytes]") -> None:
    broker.send_signal(signal.SIGTERM)
    try:
        broker.wait(DRAINED_WITHIN_S)
    except subprocess.TimeoutExpired:
        broker.kill()
        broker.wait()
