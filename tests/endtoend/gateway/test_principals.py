"""Clients that the gateway logs in, each as its own principal before three Kafka brokers with ACLs."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from broker.protocol.messages.delegation_tokens import (
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
)
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.security.client_login import ClientCredentials
from tests.support import kafka_tools
from tests.support.broker_process import LOGIN_MODULE, within
from tests.support.gateway_process import SCRAM_LOGIN, GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.produce import batch_of, produce_request
from tests.support.wire import WireClient, connect

pytestmark = kafka_tools.pytestmark

EXPIRY_MS: Final = 40_000
MAX_LIFETIME_MS: Final = 70_000
SETTINGS: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "delegation.token.secret.key=a-key-of-the-tests",
    f"delegation.token.expiry.time.ms={EXPIRY_MS}",
    f"delegation.token.max.lifetime.ms={MAX_LIFETIME_MS}",
)
CLIENTS: Final = ("alice", "bob", "carol", "dave")
PLAIN_KEY: Final = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
REFUSED: Final = "cannot log a client in upstream as its own principal"
BASE: Final = "matrix-base"
WAYS: Final = ("direct", "delegation-token", "map")
ANSWERED_WITHIN_S: Final = 30.0
OUT_WITHIN_S: Final = 60.0


def password(user: str) -> str:
    return f"{user}-secret"


def own_users(*names: str) -> str:
    return f"{LOGIN_MODULE} " + " ".join(f'user_{name}="{password(name)}"' for name in names) + ";"


def acl(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.LITERAL if kind is ResourceType.BROKER else ResourcePatternType.PREFIXED
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


ACLS: Final = [
    *(
        acl("alice", ResourceType.TOPIC, "matrix-", each)
        for each in (AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)
    ),
    acl("alice", ResourceType.TRANSACTIONAL_ID, "matrix-", AclOperation.WRITE),
    acl("bob", ResourceType.TOPIC, "matrix-", AclOperation.READ),
    acl("bob", ResourceType.GROUP, "matrix-", AclOperation.READ),
    acl("carol", ResourceType.TOPIC, "matrix-", AclOperation.ALL),
    acl("carol", ResourceType.GROUP, "matrix-", AclOperation.ALL),
    acl("carol", ResourceType.TRANSACTIONAL_ID, "matrix-", AclOperation.ALL),
    acl("carol", ResourceType.BROKER, "kafka-cluster", AclOperation.ALL),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers with an authorizer; the gateway's user may only create tokens of the clients."""
    with KafkaCluster(tmp_path_factory.mktemp("secured"), 3, *SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
        login = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for name in ("weir", *CLIENTS):
            new = UserScramCredentialUpsertion(name, login, password(name).encode())
            admin.alter_user_scram_credentials([new])[name].result(ANSWERED_WITHIN_S)
        for each in admin.create_acls(ACLS).values():
            each.result(ANSWERED_WITHIN_S)
        allow_tokens(cluster, *CLIENTS[:3])
        for each in admin.create_topics([NewTopic(BASE, 3, 3)]).values():
            each.result(ANSWERED_WITHIN_S)
        cluster.wait_in_sync(BASE)
        producer = Producer({"bootstrap.servers": cluster.bootstrap()})
        for number in range(30):
            producer.produce(BASE, b"%d" % number, partition=number % 3)
        assert producer.flush(ANSWERED_WITHIN_S) == 0
        yield cluster


def allow_tokens(cluster: KafkaCluster, *owners: str) -> None:
    """The command of the log line and of the page."""
    names = [part for owner in owners for part in ("--user-principal", f"User:{owner}")]
    kafka_tools.run(
        "org.apache.kafka.tools.AclCommand",
        *("--bootstrap-server", cluster.bootstrap(), "--add", "--allow-principal", "User:weir"),
        *("--operation", "CreateTokens", *names),
    )


def write_map(file: Path, *names: str) -> None:
    file.write_text(
        "".join(f'{name}={SCRAM_LOGIN} username="{name}" password="{password(name)}";\n' for name in names)
    )


def gateway_of(cluster: KafkaCluster, directory: Path, mode: str) -> GatewayProcess:
    directory.mkdir(exist_ok=True)
    file = directory / "principals.properties"
    write_map(file, *CLIENTS)
    return GatewayProcess(
        directory,
        cluster.bootstrap("SASL_PLAINTEXT"),
        "gateway.authentication=gateway",
        "wire.role=admin",
        "sasl.enabled.mechanisms=PLAIN",
        f"{PLAIN_KEY}={own_users(*CLIENTS)}",
        "events.topics=",
        f"gateway.upstream.principal={mode}",
        *((f"gateway.upstream.principal.map.location={file}",) if mode == "map" else ()),
        "upstream.security.protocol=SASL_PLAINTEXT",
        "upstream.sasl.mechanism=SCRAM-SHA-512",
        f'upstream.sasl.jaas.config={SCRAM_LOGIN} username="weir" password="{password("weir")}";',
        listener="SASL_PLAINTEXT",
    )


Outcomes = dict[str, str]


class User:
    """One user of the cluster by one way, with topics and a group of its own to change."""

    def __init__(self, way: str, name: str, bootstrap: str) -> None:
        mechanism = "SCRAM-SHA-512" if way == "direct" else "PLAIN"
        self.config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password(name),
            "log_level": 0,
        }
        self.topic = f"matrix-{way}-{name}"
        self.admin = AdminClient(self.config)

    def prepare(self, admin: AdminClient, bootstrap: str) -> None:
        """Make what this user tries to change, as a super user."""
        for each in admin.create_topics([NewTopic(self.topic, 1, 3)]).values():
            each.result(ANSWERED_WITHIN_S)
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.topic})
        consumer.commit(offsets=[TopicPartition(BASE, 0, 1)], asynchronous=False)
        consumer.close()

    def produce(self, **more: Any) -> None:
        errors: list[Any] = []
        producer = Producer(self.config | {"message.timeout.ms": 20_000} | more)
        producer.produce(BASE, b"more", partition=0, on_delivery=lambda error, _: errors.append(error))
        try:
            assert producer.flush(ANSWERED_WITHIN_S) == 0
        except SystemError as error:
            # The client raises what is fatal while it calls `on_delivery`.
            raise error.__cause__ or error from None
        if errors[0] is not None:
            raise KafkaException(errors[0])

    def produce_in_transaction(self) -> None:
        producer = Producer(self.config | {"transactional.id": self.topic})
        producer.init_transactions(ANSWERED_WITHIN_S)
        producer.begin_transaction()
        producer.produce(BASE, b"more", partition=0)
        producer.commit_transaction(ANSWERED_WITHIN_S)

    def fetch(self, group: str | None = None) -> None:
        """Read a record: of a partition, or as a member of a group."""
        more = {"group.id": group or f"{self.topic}-none", "auto.offset.reset": "earliest"}
        consumer = Consumer(self.config | more | {"enable.auto.commit": False})
        if group is None:
            consumer.assign([TopicPartition(BASE, 1, OFFSET_BEGINNING)])
        else:
            consumer.subscribe([BASE])
        try:
            record = consumer.poll(ANSWERED_WITHIN_S)
            assert record is not None, "no record and no error"
            if (error := record.error()) is not None:
                raise KafkaException(error)
        finally:
            consumer.close()

    def commit(self) -> None:
        consumer = Consumer(self.config | {"group.id": self.topic})
        try:
            (committed,) = consumer.commit(offsets=[TopicPartition(BASE, 0, 2)], asynchronous=False)
            if committed.error is not None:
                raise KafkaException(committed.error)
        finally:
            consumer.close()

    def wait(self, futures: Mapping[Any, Any]) -> None:
        for each in futures.values():
            each.result(ANSWERED_WITHIN_S)

    def alter(self, kind: ResourceType, name: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        self.wait(
            self.admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])])
        )

    def describe_group(self) -> None:
        self.wait(self.admin.describe_consumer_groups([self.topic]))

    def list_topic(self) -> None:
        found = self.admin.list_topics(BASE, timeout=ANSWERED_WITHIN_S).topics[BASE]
        if found.error is not None:
            raise KafkaException(found.error)

    def create_acl(self) -> None:
        binding = acl("mallory", ResourceType.TOPIC, f"{self.topic}-", AclOperation.READ)
        self.wait(self.admin.create_acls([binding]))

    def describe_acls(self) -> None:
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        self.admin.describe_acls(every).result(ANSWERED_WITHIN_S)

    @property
    def operations(self) -> Mapping[str, Callable[[], object]]:
        admin, topic, wait = self.admin, self.topic, self.wait
        return {
            "list the topic": self.list_topic,
            "produce": self.produce,
            "produce idempotently": lambda: self.produce(**{"enable.idempotence": True}),
            "produce in a transaction": self.produce_in_transaction,
            "fetch": self.fetch,
            "fetch in a group": lambda: self.fetch(f"{topic}-group"),
            "commit": self.commit,
            "list offsets": lambda: wait(admin.list_offsets({TopicPartition(BASE, 0): OffsetSpec.latest()})),
            "describe the group": self.describe_group,
            "describe topic settings": lambda: wait(
                admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
            ),
            "describe broker settings": lambda: wait(
                admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
            ),
            "create a topic": lambda: wait(admin.create_topics([NewTopic(f"{topic}-made", 1, 3)])),
            "create a topic elsewhere": lambda: wait(admin.create_topics([NewTopic(f"x-{topic}", 1, 3)])),
            "create partitions": lambda: wait(admin.create_partitions([NewPartitions(topic, 2)])),
            "alter topic settings": lambda: self.alter(ResourceType.TOPIC, topic, "retention.ms", "600000"),
            "alter broker settings": lambda: self.alter(ResourceType.BROKER, "1", "log.cleaner.threads", "1"),
            "delete records": lambda: wait(admin.delete_records([TopicPartition(topic, 0, 0)])),
            "delete the group": lambda: wait(admin.delete_consumer_groups([topic])),
            "delete the topic": lambda: wait(admin.delete_topics([topic])),
            "describe ACLs": self.describe_acls,
            "create an ACL": self.create_acl,
        }

    def outcomes(self) -> Outcomes:
        found: Outcomes = {}
        for name, operation in self.operations.items():
            try:
                operation()
            except KafkaException as error:
                found[name] = error.args[0].name()
            else:
                found[name] = "done"
        return found


def test_acls_decide_as_after_a_direct_login(secured: KafkaCluster, tmp_path: Path) -> None:
    """dave has no ACL, and is allowed a token for this test only."""
    allow_tokens(secured, "dave")
    admin = AdminClient({"bootstrap.servers": secured.bootstrap()})
    found: dict[str, dict[str, Outcomes]] = {}
    with (
        gateway_of(secured, tmp_path / "token", "delegation-token") as by_token,
        gateway_of(secured, tmp_path / "map", "map") as by_map,
    ):
        bootstraps = (secured.bootstrap("SASL_PLAINTEXT"), by_token.bootstrap, by_map.bootstrap)
        for way, bootstrap in zip(WAYS, bootstraps, strict=True):
            for name in CLIENTS:
                user = User(way, name, bootstrap)
                user.prepare(admin, secured.bootstrap())
                found.setdefault(way, {})[name] = user.outcomes()
        direct = found["direct"]
        assert found["delegation-token"] == direct
        assert found["map"] == direct
        # The matrix distinguishes the users.
        assert {name for name, each in direct["carol"].items() if each != "done"} == set()
        assert direct["alice"]["produce"] == direct["bob"]["fetch in a group"] == "done"
        assert direct["alice"]["fetch"] == direct["bob"]["produce"] == "TOPIC_AUTHORIZATION_FAILED"
        assert set(direct["dave"].values()) & {"done"} == set()
        assert not [line for line in (*by_token.log_lines, *by_map.log_lines) if "-secret" in line]


async def log_in(client: WireClient, user: str) -> None:
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
    token = f"\0{user}\0{password(user)}".encode()
    assert (await client.ask(SaslAuthenticateRequest(token), 1)).error_code == 0


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@asynccontextmanager
async def logged_in(port: int, user: str) -> AsyncIterator[WireClient]:
    with trio.fail_after(120):
        client = await connect(port)
        await log_in(client, user)
    try:
        yield client
    finally:
        await trio.aclose_forcefully(client.stream)


async def describes_base(client: WireClient) -> int:
    request = MetadataRequest([MetadataRequestTopic(name=BASE)], allow_auto_topic_creation=False)
    return int((await client.ask(request, 9)).topics[0].error_code)


def leader_port(cluster: KafkaCluster, gateway: GatewayProcess) -> int:
    return port_of(gateway.addresses[cluster.leader_of(BASE).node_id])


async def test_renewals_under_load_lose_no_connection(secured: KafkaCluster, tmp_path: Path) -> None:
    """Tokens of 40 s, of at most 70 s: they are renewed after 29 s, and replaced after 58 s."""
    with gateway_of(secured, tmp_path, "delegation-token") as gateway:
        port = leader_port(secured, gateway)
        until, counts = trio.current_time() + 100, [0] * 12

        async def load(number: int, user: str, allowed: int) -> None:
            async with logged_in(port, user) as client:
                while trio.current_time() < until:
                    answer = await client.ask(produce_request(batch_of(b"x" * 100), BASE), 9)
                    assert answer.responses[0].partition_responses[0].error_code == allowed
                    counts[number] += 1
                    await trio.sleep(0.02)

        async with trio.open_nursery() as nursery:
            for number in range(len(counts)):
                user, allowed = (("alice", 0), ("carol", 0), ("bob", 29))[number % 3]
                nursery.start_soon(load, number, user, allowed)
        assert min(counts) > 100
        assert not [line for line in gateway.log_lines if REFUSED in line or "not renewed" in line]


async def test_a_user_whose_token_is_expired_is_out_within_a_minute(
    secured: KafkaCluster, tmp_path: Path
) -> None:
    with gateway_of(secured, tmp_path, "delegation-token") as gateway:
        port = port_of(gateway.bootstrap)
        async with logged_in(port, "alice") as alice, logged_in(port, "bob") as bob:
            assert await describes_base(alice) == await describes_base(bob) == 0
            await trio.sleep(6)
            async with logged_in_directly(secured, "alice") as owner:
                described = await owner.ask(DescribeDelegationTokenRequest(None), 3)
                for token in described.tokens:
                    expired = await owner.ask(ExpireDelegationTokenRequest(bytes(token.hmac), -1), 2)
                    assert expired.error_code in (0, 66)
            began = trio.current_time()
            with trio.fail_after(OUT_WITHIN_S):
                assert await alice.is_closed()
            assert await describes_base(bob) == 0
            async with logged_in(port, "alice") as again:
                with trio.fail_after(OUT_WITHIN_S - (trio.current_time() - began)):
                    with pytest.raises((EOFError, trio.BrokenResourceError)):
                        await describes_base(again)
            assert any(REFUSED in line and "expired at the cluster" in line for line in gateway.log_lines)


@asynccontextmanager
async def logged_in_directly(cluster: KafkaCluster, user: str) -> AsyncIterator[WireClient]:
    client = await connect(port_of(cluster.nodes[1].address("SASL_PLAINTEXT")))
    login = ClientCredentials("SCRAM-SHA-512", user, password(user)).login()
    assert (await client.ask(SaslHandshakeRequest("SCRAM-SHA-512"), 1)).error_code == 0
    first = await client.ask(SaslAuthenticateRequest(login.first()), 1)
    proof = login.answer(bytes(first.auth_bytes))
    assert proof is not None
    assert (await client.ask(SaslAuthenticateRequest(proof), 1)).error_code == 0
    try:
        yield client
    finally:
        await trio.aclose_forcefully(client.stream)


@pytest.mark.parametrize("mode", ["delegation-token", "map"])
async def test_a_removed_user_is_out_within_a_minute(
    secured: KafkaCluster, tmp_path: Path, mode: str
) -> None:
    with gateway_of(secured, tmp_path, mode) as gateway:
        port = port_of(gateway.bootstrap)
        async with logged_in(port, "alice") as alice, logged_in(port, "bob") as bob:
            assert await describes_base(alice) == await describes_base(bob) == 0
            if mode == "map":
                write_map(tmp_path / "principals.properties", "bob", "carol")
            else:
                change = {"key": PLAIN_KEY, "value": own_users("bob", "carol")}
                gateway.ask("PATCH", "/api/v1/broker-configs", {"ops": [change]})
            with trio.fail_after(OUT_WITHIN_S):
                assert await alice.is_closed()
            assert await describes_base(bob) == 0


async def test_a_user_for_whom_no_token_may_be_made_is_refused_alone(
    secured: KafkaCluster, tmp_path: Path
) -> None:
    """The gateway's user may make no token of erin."""
    with gateway_of(secured, tmp_path, "delegation-token") as gateway:
        users = own_users(*CLIENTS, "erin")
        gateway.ask("PATCH", "/api/v1/broker-configs", {"ops": [{"key": PLAIN_KEY, "value": users}]})
        port = port_of(gateway.bootstrap)
        async with logged_in(port, "alice") as alice, logged_in(port, "erin") as erin:
            assert await describes_base(alice) == 0
            with trio.fail_after(OUT_WITHIN_S), pytest.raises((EOFError, trio.BrokenResourceError)):
                await describes_base(erin)
            assert await describes_base(alice) == 0
        wanted = "--allow-principal User:weir --operation CreateTokens --user-principal User:erin"
        within(5, lambda: any(wanted in line for line in gateway.log_lines), "the log says what is missing")


async def test_a_login_after_the_first_takes_at_most_5_ms_more(secured: KafkaCluster, tmp_path: Path) -> None:
    """From the connection to the first answer of one broker, in turn with the gateway's own user."""
    rounds = 60
    with (
        gateway_of(secured, tmp_path / "own", "gateway") as own,
        gateway_of(secured, tmp_path / "token", "delegation-token") as token,
    ):
        times: dict[str, list[float]] = {"own": [], "token": []}
        for number in range(rounds + 9):
            for name, gateway in (("own", own), ("token", token)):
                began = time.perf_counter()
                async with logged_in(port_of(gateway.addresses[1]), "carol") as client:
                    await describes_base(client)
                    if number >= 9:
                        times[name].append(time.perf_counter() - began)
        more_ms = (median(times["token"]) - median(times["own"])) * 1_000
        print(f"median login: own {median(times['own']) * 1_000:.2f} ms, token +{more_ms:.2f} ms")
        assert more_ms <= 5
