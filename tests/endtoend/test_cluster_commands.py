"""`weir topics`, `weir groups` and `weir clients` against the console of a broker."""

import csv
import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from broker.__main__ import main
from tests.support.broker_process import TOKEN, BrokerProcess, within

pytestmark = pytest.mark.endtoend

LONG = "n" * 240


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def weir(broker: BrokerProcess, *arguments: str, token: str = TOKEN, **environment: str) -> tuple[int, str]:
    """Its exit status, and all that it says."""
    given = {"WEIR_TOKEN": token, "WEIR_CONSOLE": f"http://{broker.console}", "COLUMNS": "", **environment}
    result = CliRunner().invoke(main, arguments, env=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert "\x1b" not in result.output
    return result.exit_code, result.output


def rows(broker: BrokerProcess, *arguments: str) -> list[dict[str, Any]]:
    status, output = weir(broker, *arguments, "--output", "json")
    assert status == 0
    found: list[dict[str, Any]] = json.loads(output)
    return found


@pytest.fixture
def topic(broker: BrokerProcess) -> Iterator[str]:
    assert weir(broker, "topics", "create", "orders", "--partitions", "2")[0] == 0
    yield "orders"
    weir(broker, "topics", "delete", "orders")


@pytest.fixture
def group(broker: BrokerProcess, topic: str) -> str:
    """A group without members that has read 30 of 100 records."""
    producer = Producer({"bootstrap.servers": broker.plain})
    for _ in range(100):
        producer.produce(topic, b"value", partition=0)
    assert producer.flush() == 0
    settings = {"bootstrap.servers": broker.plain, "group.id": "reports", "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "client.id": "reader"})
    consumer.subscribe([topic])
    message = consumer.consume(30, timeout=60)[-1]
    consumer.commit(message, asynchronous=False)
    consumer.close()
    return "reports"


def test_the_connected_clients_of_a_topic_are_listed(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "writer"})
    producer.produce(topic, b"value", partition=0)
    assert producer.flush() == 0
    found = [row for row in rows(broker, "topics", "clients", topic) if row["client_id"] == "writer"]
    assert [(row["writing"], row["reading"]) for row in found] == [(1, 0)]
    assert "writer" in weir(broker, "topics", "clients", topic)[1]


def test_a_topic_from_its_creation_to_its_deletion(broker: BrokerProcess) -> None:
    settings = ["--config", "retention.ms=7d", "--config", "segment.bytes=128 MiB"]
    create = ["topics", "create", "sales", "--partitions", "3", *settings]
    would = (0, "sales: would be created with 3 partitions\n")
    assert weir(broker, *create, "--dry-run") == would
    for command in ("describe", "clients"):
        assert weir(broker, "topics", command, "sales") == (1, "Error: the topic sales does not exist\n")
    assert weir(broker, *create) == (0, "sales: created with 3 partitions\n")
    assert weir(broker, *create) == (1, "Error: Topic 'sales' already exists.\n")
    assert broker.ask("GET", "/api/v1/topics/sales")["configs"] == {
        "retention.ms": "604800000",
        "segment.bytes": "134217728",
    }
    _, described = weir(broker, "topics", "describe", "sales")
    assert "Partitions:    3\n" in described and "retention.ms:  7 d\nsegment.bytes: 128 MiB\n" in described
    assert described.splitlines()[-1].split() == ["2", "0", "0", "0", "B", "0", "-"]

    config = ["topics", "config"]
    assert weir(broker, *config, "set", "sales", "retention.ms=1h", "--dry-run") == (
        0,
        "sales: accepted, not changed\n",
    )
    assert weir(broker, *config, "set", "sales", "retention.ms=1h") == (0, "sales: done\n")
    assert weir(broker, *config, "list", "sales")[1].splitlines() == [
        "CONFIG         VALUE    SOURCE",
        "retention.ms   1 h      topic",
        "segment.bytes  128 MiB  topic",
    ]
    assert len(rows(broker, *config, "list", "sales", "--all")) > 10
    assert weir(broker, *config, "remove", "sales", "segment.bytes") == (0, "sales: done\n")
    absent = (1, "Error: sales has no setting segment.bytes of its own\n")
    assert weir(broker, *config, "remove", "sales", "segment.bytes") == absent
    assert weir(broker, "topics", "delete", "sales") == (0, "sales: deleted\n")
    assert weir(broker, "topics", "delete", "sales") == (1, "Error: the topic sales does not exist\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["create", "bad", "--config", "retention.ms=10,000"],
            "10,000 may mean 10000 or 10; write 10000 or 10",
        ),
        (["create", "bad", "--config", "retention.ms"], "retention.ms: expected KEY=VALUE"),
        (["create", "bad", "--config", "retention.ms=7 months"], "unknown unit months"),
        (["create", "bad", "--config", "nonsense=1"], "nonsense"),
        (["create", "bad", "--partitions", "0"], "0 is not in the range"),
        (["create", "bad/name"], "bad/name"),
        (["config", "set", "nowhere", "retention.ms=1h"], "the topic nowhere does not exist"),
        (["config", "remove", "nowhere", "retention.ms"], "the topic nowhere does not exist"),
        (["config", "list", "nowhere"], "the topic nowhere does not exist"),
        (["config", "set", "nowhere", "=1"], "expected KEY=VALUE"),
        (["list", "--output", "xml"], "'xml' is not one of 'table', 'json', 'csv'"),
    ],
)
def test_invalid_input_is_reported_and_creates_nothing(
    broker: BrokerProcess, arguments: list[str], words: str
) -> None:
    status, output = weir(broker, "topics", *arguments)
    assert status in (1, 2) and words in output
    assert "bad" not in [row["name"] for row in rows(broker, "topics", "list")]


def test_long_names_are_cut_in_tables_only(broker: BrokerProcess) -> None:
    name = "t" * 240
    assert weir(broker, "topics", "create", name)[0] == 0
    status, listed = weir(broker, "topics", "list", "--search", "TTT", COLUMNS="80")
    assert status == 0 and max(map(len, listed.splitlines())) <= 80 and "ttt…" in listed
    assert name in weir(broker, "topics", "list", "--output", "csv", COLUMNS="80")[1]
    assert name in [row["name"] for row in rows(broker, "topics", "list")]
    assert weir(broker, "topics", "list", "--search", "nowhere") == (0, "No topic has this name.\n")
    assert weir(broker, "topics", "delete", name)[0] == 0


def test_a_group_is_described_reset_and_deleted(broker: BrokerProcess, group: str) -> None:
    listed = weir(broker, "groups", "list")[1].splitlines()[1].split()
    assert (listed[0], *listed[2:]) == (group, "Empty", "0", "70")
    _, described = weir(broker, "groups", "describe", group)
    assert "Lag:" in described and "The group has no members." in described
    assert described.splitlines()[-1].split() == ["orders", "0", "30", "100", "70", "-"]
    offsets = list(csv.DictReader(io.StringIO(weir(broker, "groups", "describe", group, "-o", "csv")[1])))
    assert [each["lag"] for each in offsets] == ["70"]

    reset = ["groups", "reset", group]
    moved = ["orders", "0", "30", "0", "100"]
    dry = weir(broker, *reset, "--to-earliest", "--dry-run")[1].splitlines()
    assert dry[1].split() == moved and dry[-1] == "Nothing was changed."
    assert weir(broker, "groups", "describe", group)[1].splitlines()[-1].split()[2] == "30"
    made = weir(broker, *reset, "--to-earliest")[1].splitlines()
    assert made[1].split() == moved and made[-1] == f"{group}: done"
    for target, to in (
        (["--shift-by", "10"], 10),
        (["--to-offset", "5", "--topic", "orders:0"], 5),
        (["--to-datetime", "2020-01-01T00:00"], 0),
        (["--to-latest"], 100),
    ):
        (move,) = json.loads(weir(broker, *reset, *target, "--output", "json")[1])
        assert move["to"] == to
    assert weir(broker, "groups", "delete", group) == (0, f"{group}: deleted\n")
    assert weir(broker, "groups", "delete", group) == (1, f"Error: the group {group} does not exist\n")


def test_a_group_in_use_is_not_reset(broker: BrokerProcess, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": "busy", "client.id": "reader"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    try:
        for arguments in (["reset", "busy", "--to-earliest"], ["delete", "busy"]):
            status, output = weir(broker, "groups", *arguments)
            assert status == 1 and "busy is in use" in output and "reader" in output
            assert output.count("\n") == 1
    finally:
        consumer.close()
    weir(broker, "groups", "delete", "busy")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["describe", "nobody"], "Error: the group nobody does not exist\n"),
        (["reset", "nobody", "--to-latest"], "Error: the group nobody does not exist\n"),
        (["reset", "nobody"], "give one of --to-earliest,"),
        (["reset", "nobody", "--to-latest", "--to-earliest"], "give one of --to-earliest,"),
        (["reset", "nobody", "--to-offset", "-1"], "-1 is not in the range"),
        (["reset", "nobody", "--to-datetime", "yesterday"], "yesterday: expected a time, such as"),
        (["reset", "nobody", "--to-latest", "--topic", "a:x"], "a:x: expected TOPIC or TOPIC:PARTITION,..."),
        (["reset", "nobody", "--to-latest", "--topic", "a:"], "a:: expected TOPIC or TOPIC:PARTITION,..."),
    ],
)
def test_invalid_groups_and_targets_are_reported(
    broker: BrokerProcess, arguments: list[str], words: str
) -> None:
    status, output = weir(broker, "groups", *arguments)
    assert status in (1, 2) and words in output


def test_a_group_that_exists_is_not_blamed_for_a_topic_that_does_not(
    broker: BrokerProcess, group: str
) -> None:
    status, output = weir(broker, "groups", "reset", group, "--to-latest", "--topic", "nowhere")
    assert status == 1 and "nowhere" in output and group not in output
    weir(broker, "groups", "delete", group)


def test_connections_are_listed_and_described(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": LONG})
    assert producer.list_topics(timeout=60).brokers
    # A connection that was opened for the first answer may close while the list is made.
    (row, *_) = within(
        60,
        lambda: [row for row in rows(broker, "clients", "list") if row["client_id"] == LONG],
        "the connection is listed",
    )
    assert (row["principal"], row["address"], row["throttled"]) == ("ANONYMOUS", "127.0.0.1", [])
    assert row["software_name"] == "confluent-kafka-python" and row["software_version"]
    status, listed = weir(broker, "clients", "list", COLUMNS="100")
    assert status == 0 and max(map(len, listed.splitlines())) <= 100 and "nnn…" in listed
    assert LONG in weir(broker, "clients", "list", "--output", "csv")[1]
    _, described = weir(broker, "clients", "describe", LONG)
    assert f"Client id:       {LONG}\n" in described and "Throttled:       no\n" in described
    _, one = weir(broker, "clients", "describe", row["connection_id"])
    assert one.count("Client id:") == 1
    assert weir(broker, "clients", "describe", "nobody") == (
        1,
        "Error: no connection has the client id or the id nobody\n",
    )


def test_a_throttled_connection_says_so(broker: BrokerProcess, topic: str) -> None:
    assert weir(broker, "quotas", "set", "--client-id", "slow", "producer_byte_rate=1kB")[0] == 0
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "slow", "acks": 1})
    for _ in range(30):
        producer.produce(topic, bytes(10_000), partition=0)
    # What is muted for half a minute is listed while it is.
    while not any(row["throttled"] for row in rows(broker, "clients", "list", "--search", "slow")):
        producer.poll(0.1)
    assert "Throttled:       produce\n" in weir(broker, "clients", "describe", "slow")[1]
    producer.purge()
    assert weir(broker, "quotas", "remove", "--client-id", "slow", "producer_byte_rate")[0] == 0


@pytest.mark.parametrize("command", ["topics", "groups", "clients"])
def test_errors_are_one_line_each(broker: BrokerProcess, command: str) -> None:
    assert weir(broker, command, "list", token="a-token-that-nobody-has") == (1, "Error: Unknown token.\n")
    nothing = weir(broker, command, "list", token="", WEIR_ADMIN_TOKEN="")
    assert nothing == (1, "Error: no token: set WEIR_TOKEN or WEIR_ADMIN_TOKEN\n")
    status, output = weir(broker, command, "list", WEIR_CONSOLE="http://127.0.0.1:1")
    assert status == 1 and output.count("\n") == 1
    assert output.startswith("Error: no console responds at http://127.0.0.1:1: ")
    assert weir(broker, command, "--help", token="")[0] == 0


def test_names_are_completed(broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WEIR_COMPLETE", "bash_complete")
    monkeypatch.setenv("WEIR_TOKEN", TOKEN)
    monkeypatch.setenv("WEIR_CONSOLE", f"http://{broker.console}")

    def completed(words: str) -> str:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        return CliRunner().invoke(main, prog_name="weir").output

    assert completed("weir topics describe or") == f"plain,{topic}\n"
    assert completed("weir topics config list ord") == f"plain,{topic}\n"
    assert completed("weir topics describe x").strip() == ""
    monkeypatch.setenv("WEIR_CONSOLE", "http://127.0.0.1:1")
    assert completed("weir topics describe or").strip() == ""


def test_a_hostile_name_in_a_path_is_one_name(broker: BrokerProcess) -> None:
    for name in ("..", "a/offsets", "~2e", "%2e", "a?b#c", "\x1b[2J"):
        status, output = weir(broker, "groups", "describe", name)
        assert (status, output) == (1, output) and output.endswith(" does not exist\n"), name


def test_a_viewer_may_look_and_not_change(broker: BrokerProcess, topic: str) -> None:
    made = broker.ask("POST", "/api/v1/tokens", {"name": f"viewer-{time.time_ns()}", "role": "viewer"})
    secret = made["secret"]
    assert weir(broker, "topics", "list", token=secret)[0] == 0
    status, output = weir(broker, "topics", "delete", topic, token=secret)
    assert status == 1 and output.count("\n") == 1 and "role" in output
