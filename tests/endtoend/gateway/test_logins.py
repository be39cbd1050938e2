"""Clients that the gateway itself logs in (`gateway.authentication=gateway`), in front of upstream listeners
of every protocol, where it uses its own credentials; TLS on one side only.
"""

from pathlib import Path
from urllib.error import HTTPError

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support import kafka_tools
from tests.support.acknowledged_load import read_all
from tests.support.broker_process import LOGIN_MODULE, within
from tests.support.certificates import certificates
from tests.support.gateway_process import SCRAM_LOGIN, GatewayProcess, upstream_security
from tests.support.kafka_cluster import KafkaCluster
from tests.support.real_clients import CLIENTS, Client, Target, create

pytestmark = [
    *kafka_tools.pytestmark,
    # kafka-python leaves the sockets of a login that fails to the collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <s:pytest.PytestUnraisableExceptionWarning"),
]

VALUES = [b"%d " % number * 50 for number in range(300)] + [bytes(1_000_000)]
OWN_USER = f'{LOGIN_MODULE} user_carol="carol-secret";'


def gateway_of(
    cluster: KafkaCluster, directory: Path, listener: str, upstream: str, *more: str
) -> GatewayProcess:
    settings = [f"upstream.security.protocol={upstream}", *upstream_security(upstream), *more]
    if listener == "SSL":
        settings.append(f"ssl.keystore.location={certificates().server.store}")
    if listener == "SASL_PLAINTEXT":
        settings += [
            "gateway.authentication=gateway",
            "wire.role=editor",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={OWN_USER}",
        ]
    return GatewayProcess(directory, cluster.bootstrap(upstream), *dict.fromkeys(settings), listener=listener)


def target_of(gateway: GatewayProcess, password: str = "carol-secret") -> Target:
    if gateway.listener == "SASL_PLAINTEXT":
        return Target(gateway.bootstrap, "SASL_PLAINTEXT", "PLAIN", "carol", password)
    return Target(gateway.bootstrap, gateway.listener)


@pytest.mark.parametrize(
    ("listener", "upstream"),
    [
        ("SASL_PLAINTEXT", "PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "SSL"),
        ("SSL", "PLAINTEXT"),
        ("PLAINTEXT", "SSL"),
    ],
)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_listener_goes_with_every_upstream(
    cluster: KafkaCluster, tmp_path: Path, client: Client, listener: str, upstream: str
) -> None:
    """carol is no user of the cluster."""
    topic = f"{client.name}-{listener}-{upstream}"
    with gateway_of(cluster, tmp_path, listener, upstream) as gateway:
        target = target_of(gateway)
        create(target, topic)
        assert client.produce(target, topic, VALUES) == list(range(len(VALUES)))
        assert client.read(target, topic, len(VALUES)) == VALUES
        if listener == "SASL_PLAINTEXT":
            with pytest.raises(Exception, match=r"(?i)authenticat|bootstrap|metadata"):
                client.login(target_of(gateway, "wrong"))


def test_credentials_that_the_cluster_refuses_have_a_line_in_the_log(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    gateway = gateway_of(cluster, tmp_path, "SASL_PLAINTEXT", "SASL_PLAINTEXT")
    wrong = f'upstream.sasl.jaas.config={SCRAM_LOGIN} username="alice" password="wrong";'
    gateway.settings = (*gateway.settings, wrong, "upstream.metadata.max.age.ms=500")
    gateway.start(wait=False)
    with gateway.already_started():
        gateway.wait_for(gateway.bootstrap)
        with pytest.raises(KafkaException):
            CLIENTS[0].produce(target_of(gateway), "nothing", [b"x"])
        refused = [line for line in gateway.log_lines if "credentials" in line or "uthentication" in line]
        assert refused
        within(
            5, lambda: gateway.ask("GET", "/api/v1/throttled-channels")["items"] == [], "the console answers"
        )


def test_new_credentials_in_their_file_need_no_restart(cluster: KafkaCluster, tmp_path: Path) -> None:
    """With quota.scope=cluster, whose common log takes no password."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    login = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)

    def change(password: str) -> None:
        new = UserScramCredentialUpsertion("edge", login, password.encode())
        admin.alter_user_scram_credentials([new])["edge"].result(30)
        file.write_text(f'{SCRAM_LOGIN} username="edge" password="{password}";')

    file = tmp_path / "upstream.jaas"
    change("first-secret")
    gateway = gateway_of(
        cluster,
        tmp_path,
        "SASL_PLAINTEXT",
        "SASL_PLAINTEXT",
        "upstream.sasl.jaas.config=",
        f"upstream.sasl.jaas.config.location={file}",
        "quota.scope=cluster",
        "node.id=71",
        "upstream.metadata.max.age.ms=500",
    )
    gateway.settings = tuple(
        each for each in gateway.settings if not each.startswith("upstream.sasl.jaas.config=org")
    )
    with gateway:
        target = target_of(gateway)
        create(target, "renewed")
        assert CLIENTS[0].produce(target, "renewed", [b"1"]) == [0]
        with pytest.raises(HTTPError) as refused:
            gateway.ask(
                "PATCH",
                "/api/v1/broker-configs",
                {"ops": [{"key": "upstream.sasl.jaas.config", "value": file.read_text()}]},
            )
        assert refused.value.code == 400
        change("second-secret")
        within(5, lambda: any("credentials read again" in each for each in gateway.log_lines), "it is read")
        assert CLIENTS[0].produce(target, "renewed", [b"2"]) == [1]
        assert not [line for line in gateway.log_lines if "refuses" in line or "second-secret" in line]
    stored = read_all(cluster.bootstrap(), "__weir_metadata", 1).values()
    assert stored and not [value for value in stored if b"-secret" in value]
