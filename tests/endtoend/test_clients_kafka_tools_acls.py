"""kafka-acls.sh: adds, lists and removes ACLs of a user that logs in."""

from pathlib import Path

from tests.controller.world import AUTHORIZER
from tests.support import kafka_tools
from tests.support.broker_process import USERS, BrokerProcess
from tests.support.kafka_tools import run

pytestmark = kafka_tools.pytestmark

ACLS = "org.apache.kafka.tools.AclCommand"


def test_acls_are_added_listed_and_removed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", AUTHORIZER, "super.users=User:bob") as broker:
        settings = tmp_path / "client.properties"
        settings.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="bob" password="{USERS["bob"]}";\n'
        )
        common = ("--bootstrap-server", broker.sasl, "--command-config", str(settings))
        who = ("--allow-principal", "User:alice")
        run(ACLS, *common, "--add", *who, "--producer", "--topic", "orders")
        run(
            ACLS,
            *common,
            *("--add", *who, "--consumer", "--topic", "ord", "--group", "*"),
            *("--resource-pattern-type", "prefixed"),
        )
        listed = run(ACLS, *common, "--list")
        assert "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)" in listed
        assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed
        matching = run(ACLS, *common, "--list", "--topic", "orders", "--resource-pattern-type", "match")
        assert "name=ord, patternType=PREFIXED" in matching and "name=orders" in matching
        run(ACLS, *common, "--remove", "--force", "--topic", "orders")
        listed = run(ACLS, *common, "--list", "--principal", "User:alice")
        assert "name=orders" not in listed and "name=ord," in listed
