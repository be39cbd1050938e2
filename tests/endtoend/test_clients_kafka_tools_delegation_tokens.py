"""Delegation tokens with the tool and the client of Apache Kafka: created, listed, renewed, used for a
login, kept over a crash, and removed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import USERS, BrokerProcess
from tests.support.kafka_tools import PRODUCER, call

pytestmark = kafka_tools.pytestmark

TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
SECRET: Final = "a-key-for-delegation-tokens"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
SENT: Final = "10 records sent"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Token(NamedTuple):
    id: str
    hmac: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = (
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"delegation.token.secret.key={SECRET}",
        "super.users=User:alice",
    )
    with BrokerProcess(tmp_path_factory.mktemp("data"), *settings) as process:
        yield process


def client(folder: Path, mechanism: str, module: str, user: str, password: str, more: str = "") -> str:
    file = folder / f"{mechanism}-{user}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}"{more};\n'
    )
    return str(file)


def tool(broker: BrokerProcess, settings: str, *arguments: str) -> tuple[int, str]:
    status, output, complained = call(
        TOKENS, "--bootstrap-server", broker.sasl, "--command-config", settings, *arguments
    )
    return status, output + complained


def created(broker: BrokerProcess, settings: str, *arguments: str) -> Token:
    status, output = tool(broker, settings, "--create", "--max-life-time-period", "-1", *arguments)
    assert status == 0, output
    (row,) = [line.split() for line in output.splitlines() if "User:" in line and "Calling" not in line]
    return Token(row[0], row[1])


def produced(broker: BrokerProcess, settings: str) -> str:
    """What the tool says of ten records; its status is 0 if it sends none, too."""
    _, output, complained = call(
        *(PRODUCER, "--topic", "by-token", "--num-records", "10", "--record-size", "100"),
        *("--throughput", "-1", "--producer.config", settings),
        *("--producer-props", f"bootstrap.servers={broker.sasl}", "max.block.ms=15000"),
    )
    return output + complained


def test_a_token_is_created_listed_renewed_used_and_removed(broker: BrokerProcess, tmp_path: Path) -> None:
    bob = client(tmp_path, "PLAIN", PLAIN, "bob", USERS["bob"])
    token = created(broker, bob, "--renewer-principal", "User:alice")
    status, listed = tool(broker, bob, "--describe", "--owner-principal", "User:bob")
    assert status == 0 and token.id in listed and token.hmac in listed and "User:alice" in listed
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        settings = client(tmp_path, mechanism, SCRAM, *token, ' tokenauth="true"')
        assert SENT in produced(broker, settings)
    status, refused = tool(broker, settings, "--describe")
    assert status != 0 and "Delegation Token requests are not allowed" in refused
    broker.kill()
    broker.start()
    assert SENT in produced(broker, settings)
    alice = client(tmp_path, "PLAIN", PLAIN, "alice", USERS["alice"])
    status, renewed = tool(broker, alice, "--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    assert status == 0 and "Completed renew operation" in renewed
    status, expired = tool(broker, bob, "--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)
    assert status == 0 and "Completed expire operation" in expired
    status, gone = tool(broker, bob, "--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    assert status != 0 and "DelegationTokenNotFoundException" in gone
    output = produced(broker, settings)
    assert SENT not in output and "invalid credentials with SASL mechanism" in output


def test_a_token_of_another_owner_is_an_administrators(broker: BrokerProcess, tmp_path: Path) -> None:
    alice = client(tmp_path, "PLAIN", PLAIN, "alice", USERS["alice"])
    token = created(broker, alice, "--owner-principal", "User:carol")
    settings = client(tmp_path, "SCRAM-SHA-512", SCRAM, *token, ' tokenauth="true"')
    assert SENT in produced(broker, settings)
    trail = broker.ask("GET", "/api/v1/audit?kind=delegation-token")["items"]
    assert trail[0]["actor"] == "User:alice" and "carol" in str(trail)
    assert not [each for each in (SECRET, token.hmac) if each in str(trail)]
