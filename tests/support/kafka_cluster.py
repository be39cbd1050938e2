"""A cluster of Apache Kafka on this machine: one to three combined nodes (KRaft), each a process.

Used by tests/endtoend/gateway, which puts gateways in front of it. The jars are those of
`python -m benchmarks.install kafka`; `kafka_tools.pytestmark` leaves tests out where they are missing.
Ports are chosen once and kept over restarts, below the range that the system gives to outgoing connections.
"""

import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.install import KAFKA_LIBS
from tests.support.broker_process import LOGIN_MODULE, USERS
from tests.support.certificates import certificates

JAVA: Final = ("java", "-Xmx256m", "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
STARTED_WITHIN_S: Final = 120.0
STOPPED_WITHIN_S: Final = 60.0
LOOK_EVERY_S: Final = 0.1
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
LISTENERS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "RELAYED")
"""Each node has all of them. RELAYED is plain, and advertised at a port where the test runs a relay."""

PROPERTIES: Final = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,RELAYED:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain_login}
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={scram_login}
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={scram_login}
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config={token_login}
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
ssl.client.auth=requested
log.dirs={data}
num.partitions=1
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=3
offsets.topic.replication.factor={replicas}
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=3
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=200
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
message.max.bytes=12000000
replica.fetch.max.bytes=12000000
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
replica.lag.time.max.ms=10000
controlled.shutdown.retry.backoff.ms=500
log.cleaner.enable=false
"""


class KafkaNode:
    """One node. Killed or stopped, it starts again with its data, at its ports, with the jars in `libs`."""

    def __init__(self, node_id: int, directory: Path, ports: dict[str, int], libs: Path = KAFKA_LIBS) -> None:
        """`ports` has each of LISTENERS, `CONTROLLER`, and `relay`, where RELAYED is advertised."""
        self.node_id = node_id
        self.libs = libs
        self.ports = ports
        self.properties = directory / f"node-{node_id}.properties"
        self.output = directory / f"node-{node_id}.output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def address(self, listener: str) -> str:
        """What clients of this listener are told, except that of RELAYED is the relay's."""
        return f"127.0.0.1:{self.ports[listener]}"

    def start(self) -> None:
        """Returns at once; see KafkaCluster.wait."""
        assert not self.is_running
        # A test run that is killed takes its nodes with it.
        dying = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [*dying, *java("kafka.Kafka", str(self.properties), libs=self.libs)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.properties.parent,
            )

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped with SIGSTOP in the block: the kernel accepts connections and bytes, and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """A controlled shutdown: the node first hands its partitions to the others."""
        self._end(signal.SIGTERM)

    def check(self) -> None:
        """Fails when the node has ended by itself."""
        assert self._process is None or self._process.poll() is None, (
            f"node {self.node_id} has ended:\n" + self.output.read_text(errors="replace")[-3000:]
        )

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None


class KafkaCluster:
    """Nodes 1 to `count`; replication over all of them. The users are those of broker_process, by PLAIN,
    SCRAM-SHA-256 and SCRAM-SHA-512, and by OAUTHBEARER whoever an unsigned token names; there is no
    authorizer.
    """

    def __init__(self, directory: Path, count: int = 1, *settings: str, libs: Path = KAFKA_LIBS) -> None:
        """`settings` are lines of server.properties that follow our own, with each node's id for `{node}`."""
        self.count = count
        ports = free_ports(count * (len(LISTENERS) + 2))
        names = (*LISTENERS, "CONTROLLER", "relay")
        self.nodes = {
            node_id: KafkaNode(node_id, directory, {name: next(ports) for name in names}, libs)
            for node_id in range(1, count + 1)
        }
        for node in self.nodes.values():
            node.properties.write_text(
                self._properties(node, directory)
                + "".join(f"{each}\n".replace("{node}", str(node.node_id)) for each in settings)
            )

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._format, self.nodes.values()))
            for node in self.nodes.values():
                node.start()
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def bootstrap(self, listener: str = "PLAINTEXT") -> str:
        """`bootstrap.servers` of a client; for RELAYED, of one that avoids the relays."""
        return ",".join(node.address(listener) for node in self.nodes.values())

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def wait(self, node_ids: Iterable[int] | None = None) -> None:
        """Returns when these nodes, or all, answer, and each knows of each."""
        wanted = set(self.nodes if node_ids is None else node_ids)
        for node_id in wanted:
            node = self.nodes[node_id]
            self._look(partial(self._knows, node, wanted), f"{node_id} serves")

    def wait_in_sync(self, *topics: str) -> None:
        """Returns when every replica of the topics is in sync, and the preferred one or another leads."""

        def in_sync() -> bool:
            return all(
                len(partition.isrs) == len(partition.replicas) and partition.leader in self.nodes
                for node in self.nodes.values()
                for topic in topics
                for partition in self._metadata(node, topic).topics[topic].partitions.values()
            )

        self._look(in_sync, f"{', '.join(topics)} in sync")

    def roll(self, *topics: str) -> None:
        """Restarts node after node, as an operator would: each when the one before is in sync again."""
        for node in self.nodes.values():
            node.stop()
            node.start()
            self.wait()
            self.wait_in_sync(*topics)

    def leader_of(self, topic: str, partition: int = 0) -> KafkaNode:
        metadata = self._metadata(next(node for node in self.nodes.values() if node.is_running), topic)
        return self.nodes[metadata.topics[topic].partitions[partition].leader]

    def _knows(self, node: KafkaNode, wanted: set[int]) -> bool:
        return bool(wanted <= self._metadata(node).brokers.keys())

    def _metadata(self, node: KafkaNode, topic: str | None = None) -> Any:
        """What this very node says."""
        admin = AdminClient({"bootstrap.servers": node.address("PLAINTEXT"), "log_level": 0})
        return admin.list_topics(topic, timeout=5) if topic else admin.list_topics(timeout=5)

    def _look(self, found: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while True:
            for node in self.nodes.values():
                node.check()
            with suppress(KafkaException, KeyError):
                if found():
                    return
            assert time.monotonic() < deadline, f"not within {STARTED_WITHIN_S} s: {what}"
            time.sleep(LOOK_EVERY_S)

    def _properties(self, node: KafkaNode, directory: Path) -> str:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        listeners = [f"{name}://127.0.0.1:{node.ports[name]}" for name in (*LISTENERS, "CONTROLLER")]
        ports = {name: node.ports["relay" if name == "RELAYED" else name] for name in LISTENERS}
        return PROPERTIES.format(
            node_id=node.node_id,
            voters=",".join(f"{each.node_id}@{each.address('CONTROLLER')}" for each in self.nodes.values()),
            listeners=",".join(listeners),
            advertised=",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            plain_login=f"{LOGIN_MODULE} {users};",
            scram_login="org.apache.kafka.common.security.scram.ScramLoginModule required;",
            token_login="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            keystore=certificates().server.store,
            truststore=certificates().authority.certificate,
            data=directory / f"data-{node.node_id}",
            replicas=self.count,
            in_sync=min(2, self.count),
        )

    def _format(self, node: KafkaNode) -> None:
        users = [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in USERS.items()
        ]
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(node.properties))
        command = java("kafka.tools.StorageTool", *arguments, libs=node.libs)
        done = subprocess.run([*command, *users], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def java(main: str, *arguments: str, libs: Path = KAFKA_LIBS) -> list[str]:
    return [*JAVA, "-cp", f"{libs}/*", main, *arguments]


def free_ports(count: int) -> Iterator[int]:
    """Ports that were free, so that a node that restarts finds no outgoing connection at its port."""
    ports = list(range(20_000, 32_000))
    random.shuffle(ports)
    found = 0
    for port in ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += 1
            yield port
        if found == count:
            return
    raise AssertionError(f"{count} ports between 20000 and 31999 are not free")
