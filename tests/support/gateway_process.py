"""`weir gateway` as a process of its own in front of a KafkaCluster, and the two ways to reach that cluster.

Used by tests/endtoend/gateway: the same tests run with each way, and the direct one says what must pass.
"""

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.broker_process import TOKEN, USERS, WEIR, ask_console
from tests.support.certificates import certificates
from tests.support.kafka_cluster import KafkaCluster
from tests.support.running_gateway import CLUSTER_KEY

STARTED_WITHIN_S: Final = 60.0
ENDED_WITHIN_S: Final = 60.0
LOOK_EVERY_S: Final = 0.05
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class GatewayProcess:
    """A gateway with one listener. Its ports are kept over restarts."""

    def __init__(
        self,
        directory: Path,
        upstream: str,
        *overrides: str,
        listener: str = "PLAINTEXT",
        nodes: int = 3,
        under: Sequence[str] = (),
    ) -> None:
        """`upstream` is the cluster's `upstream.bootstrap.servers`; `listener` is the protocol for clients.
        `nodes` are the upstream nodes, whose ids begin with 1. `under` is a command that executes the
        gateway's.
        """
        self._under = under
        self.directory = directory
        self.listener = listener
        first = free_range(nodes + 3)
        self.bootstrap = f"127.0.0.1:{first}"
        self.console = f"127.0.0.1:{first + 1}"
        # The range begins with the port of node 0, which there is not.
        self.addresses = {node_id: f"127.0.0.1:{first + 2 + node_id}" for node_id in range(1, nodes + 1)}
        self.settings = (
            f"listeners={listener}://{self.bootstrap}",
            f"upstream.bootstrap.servers={upstream}",
            f"gateway.port.range={first + 2}-{first + 2 + nodes}",
            f"log.dirs={directory / 'data'}",
            f"console.listener={self.console}",
            f"gateway.cluster.keys={CLUSTER_KEY}",
            *overrides,
        )
        self.output = directory / "gateway.output"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @contextmanager
    def already_started(self) -> Iterator[Self]:
        """Ends it with the block, after `start`."""
        try:
            yield self
        finally:
            self.__exit__(None, None, None)

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the gateway is not running"
        return self._process

    @property
    def log_lines(self) -> list[str]:
        """What it has written so far, since its first start."""
        return self.output.read_text(encoding="utf-8", errors="replace").splitlines()

    def start(self, *, wait: bool = True) -> None:
        """Returns when it accepts connections for every node and serves its console, or at once."""
        dying = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *dying,
                    *self._under,
                    WEIR,
                    "gateway",
                    *(f"--override={setting}" for setting in self.settings),
                ],
                env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if wait:
            for address in (self.bootstrap, *self.addresses.values()):
                self.wait_for(address)
            self._until(self._has_console, f"the console {self.console} is not there")

    def wait_for(self, address: str) -> None:
        """Returns when connections to one of its addresses are accepted."""
        host, _, port = address.rpartition(":")

        def is_open() -> bool:
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
                return True
            return False

        self._until(is_open, f"{address} is not open")

    def _has_console(self) -> bool:
        """Whether it knows the administrator's token, which it learns from the log of all gateways if it has
        one, after its ports are open.
        """
        with suppress(OSError):
            self.ask("GET", "/api/v1/overview")
            return True
        return False

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while not condition():
            assert self.running.poll() is None, "the gateway has ended:\n" + "\n".join(self.log_lines[-30:])
            assert time.monotonic() < deadline, f"{otherwise}:\n" + "\n".join(self.log_lines[-30:])
            time.sleep(LOOK_EVERY_S)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit status after the drain."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self.running
        process.send_signal(how)
        status = process.wait(ENDED_WITHIN_S)
        self._process = None
        return status

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer of the REST API to the administrator. Raises HTTPError where it refuses."""
        return ask_console(self.console, method, path, body)


def set_rate(gateway: GatewayProcess, client_id: str, rate: int | None) -> None:
    """Set the produce limit of a client id at this gateway's console; None removes it."""
    op = {"key": "producer_byte_rate"} | ({"remove": True} if rate is None else {"value": rate})
    gateway.ask(
        "PATCH", "/api/v1/client-quotas", {"entries": [{"entity": {"client-id": client_id}, "ops": [op]}]}
    )


class Way:
    """How clients reach the cluster: directly, or through a gateway for each protocol, started when it is
    first used. `topic("life")` is a name that no other test has.
    """

    def __init__(self, name: str, cluster: KafkaCluster, directory: Path) -> None:
        """`name` is `kafka` or `gateway`."""
        self.name = name
        self.cluster = cluster
        self._directory = directory
        self._gateways: dict[str, GatewayProcess] = {}
        self._stack = ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def plain(self) -> str:
        return self.bootstrap("PLAINTEXT")

    def topic(self, name: str) -> str:
        return f"{name}-{self.name}-{next(self._numbers)}"

    def bootstrap(self, listener: str) -> str:
        return self.cluster.bootstrap(listener) if self.name == "kafka" else self.gateway(listener).bootstrap

    def addresses(self, listener: str = "PLAINTEXT") -> Mapping[int, str]:
        """What clients must be told: the address of each node."""
        if self.name == "kafka":
            return {node_id: node.address(listener) for node_id, node in self.cluster.nodes.items()}
        return self.gateway(listener).addresses

    def gateway(self, listener: str = "PLAINTEXT") -> GatewayProcess:
        """The gateway of this protocol. It speaks the same one upstream."""
        if listener not in self._gateways:
            directory = self._directory / listener.lower()
            directory.mkdir(parents=True)
            process = GatewayProcess(
                directory,
                self.cluster.bootstrap(listener),
                f"upstream.security.protocol={listener}",
                *upstream_security(listener),
                listener=listener,
                nodes=self.cluster.count,
            )
            self._gateways[listener] = self._stack.enter_context(process)
        return self._gateways[listener]


def upstream_security(listener: str) -> tuple[str, ...]:
    """Settings of a gateway whose clients and upstream both speak this protocol."""
    if listener == "SASL_PLAINTEXT":
        return (
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "upstream.sasl.mechanism=SCRAM-SHA-512",
            f'upstream.sasl.jaas.config={SCRAM_LOGIN} username="alice" password="{USERS["alice"]}";',
        )
    if listener == "SSL":
        return (
            f"ssl.keystore.location={certificates().server.store}",
            f"upstream.ssl.truststore.location={certificates().authority.certificate}",
        )
    return ()


def free_range(count: int) -> int:
    """The first of so many consecutive ports that were free, below those of outgoing connections."""
    starts = list(range(10_000, 19_900, 10))
    random.shuffle(starts)
    for first in starts:
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError(f"no {count} free ports between 10000 and 20000")
