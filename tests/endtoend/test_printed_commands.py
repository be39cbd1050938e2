"""What Weir prints works as it is printed, for each kind of listener: the program in Python and the kcat
command of the start, and the commands of Kafka's tools in the REST API's answers. The reader's files and
login take the place of those that the text says to replace.
"""

import os
import pty
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.controller.rows.client_endpoint import ClientEndpoint
from tests.support import kafka_tools
from tests.support.broker_process import LOGIN_MODULE, TOKEN, USERS, WEIR, ask_console, within
from tests.support.certificates import certificates

pytestmark = pytest.mark.endtoend

LOGIN: Final = f"{LOGIN_MODULE} " + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
LISTENERS: Final[Mapping[str, tuple[str, ...]]] = {
    "PLAINTEXT://127.0.0.1:0": (),
    "PLAINTEXT://[::1]:0": (),
    "SSL://[::1]:0": (),
    "SSL://127.0.0.1:0": ("ssl.client.auth=required",),
    "SASL_PLAINTEXT://[::1]:0": (f"listener.name.sasl_plaintext.plain.sasl.jaas.config={LOGIN};",),
    "SASL_SSL://127.0.0.1:0": (f"listener.name.sasl_ssl.plain.sasl.jaas.config={LOGIN};",),
}
ENDS_WITHIN_S: Final = 60


@pytest.fixture(scope="module", params=LISTENERS)
def greeting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a broker with this listener prints, while it runs."""
    known, listener = certificates(), request.param
    settings = [
        f"listeners={listener}",
        f"log.dirs={tmp_path_factory.mktemp('data')}",
        "console.listener=127.0.0.1:0",
        f"ssl.keystore.location={known.server.store}",
        f"ssl.truststore.location={known.authority.certificate}",
        "sasl.enabled.mechanisms=PLAIN",
        "wire.role=admin",
        *LISTENERS[listener],
    ]
    command = [WEIR, "serve", *(f"--override={setting}" for setting in settings)]
    environment = os.environ | {"WEIR_ADMIN_TOKEN": TOKEN}
    reading, writing = pty.openpty()  # only a terminal gets the commands
    with (
        os.fdopen(reading, encoding="utf-8") as output,
        subprocess.Popen(command, stdout=writing, env=environment) as broker,
    ):
        os.close(writing)
        printed = ""
        try:
            last = "producer.flush()" if listener.startswith("PLAINTEXT") else "Replace "
            while last not in printed:
                line = output.readline()  # raises OSError if the broker ends before it serves
                printed += line.replace("\r\n", "\n")
            yield printed
        finally:
            broker.terminate()
            assert broker.wait(ENDS_WITHIN_S) == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the printed settings name."""
    known = certificates()
    shutil.copy(known.authority.certificate, tmp_path / "ca.pem")
    shutil.copy(known.alice.store, tmp_path / "client.pem")
    return tmp_path


def as_a_reader(text: str) -> str:
    name, password = next(iter(USERS.items()))
    return text.replace("USER", name).replace("PASSWORD", password)


def program(greeting: str) -> str:
    lines = as_a_reader(greeting).splitlines()
    first = next(number for number, line in enumerate(lines) if "import Producer" in line)
    last = next(number for number, line in enumerate(lines) if "producer.flush()" in line)
    return "\n".join(line.removeprefix("  ") for line in lines[first : last + 1])


def kcat(greeting: str) -> str:
    return next(line.strip() for line in as_a_reader(greeting).splitlines() if "kcat -b" in line)


def settings_of(command: str) -> dict[str, str]:
    """The settings of a kcat command, as librdkafka has them."""
    words = shlex.split(command)
    address = words[words.index("-b") + 1]
    pairs = (words[number + 1] for number, word in enumerate(words) if word == "-X")
    return {"bootstrap.servers": address} | dict(pair.split("=", 1) for pair in pairs)


def greetings(settings: Mapping[str, str]) -> int:
    """How many records the topic holds."""
    consumer = Consumer({**settings, "group.id": "reader", "client.id": "reader"})
    try:
        [partition] = consumer.list_topics("greetings", timeout=20).topics["greetings"].partitions
        low, high = consumer.get_watermark_offsets(TopicPartition("greetings", partition), timeout=20)
        return high - low
    finally:
        consumer.close()


def test_the_printed_program_and_the_printed_command_send_a_record_each(
    greeting: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = subprocess.run(
        [sys.executable, "-c", program(greeting)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    settings = settings_of(kcat(greeting))
    assert greetings(settings) == 1
    is_encrypted = settings.get("security.protocol", "").endswith("SSL")
    if shutil.which("kcat") is not None and not is_encrypted:  # Debian's librdkafka verifies no addresses
        subprocess.run(["sh", "-c", kcat(greeting)], cwd=folder, check=True, timeout=60)
    else:
        producer = Producer(settings)
        producer.produce("greetings", b"hello")
        assert producer.flush(20) == 0
    assert greetings(settings) == 2


def test_an_address_of_ip_6_has_brackets_wherever_it_is_printed(greeting: str) -> None:
    assert not re.search(r"(?<!\[)::1:\d", greeting)
    assert re.match(r"Kafka:   (\[::1\]|127\.0\.0\.1):\d+\n", greeting)


TOOLS: Final = {
    "kafka-consumer-groups.sh": kafka_tools.GROUPS,
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-client-metrics.sh": kafka_tools.CLIENT_METRICS,
    "kafka-configs.sh": kafka_tools.CONFIGS,
    "kafka-topics.sh": kafka_tools.TOPICS,
}
NEEDS_TOOLS: Final = pytest.mark.skipif(
    not kafka_tools.are_there(), reason="needs Java and `python -m benchmarks.install kafka`"
)
ASKED: Final = (
    (
        *("PATCH", "client-quotas"),
        {"entries": [{"entity": {"user": "eve"}, "ops": [{"key": "producer_byte_rate", "value": 1000}]}]},
    ),
    ("PUT", "ip-quotas/10.0.0.7", {"connection_creation_rate": 5}),
    ("POST", "topics", {"name": "printed", "partitions": 1}),
    (
        *("PATCH", "topics/printed/configs"),
        {"ops": [{"key": "retention.ms", "value": "86400000"}]},
    ),
    ("PUT", "client-metrics/all", {"metrics": ["*"]}),
    ("PUT", "topics/printed/partitions", {"count": 2}),
    ("POST", "groups/reader/offsets:reset", {"to": {"earliest": True}}),
    ("POST", "transactions/payments:abort", {}),
)


def commands_in(answer: object) -> list[str]:
    """All values of `command` in an answer."""
    if isinstance(answer, list):
        return [line for each in answer for line in commands_in(each)]
    if isinstance(answer, dict):
        own = [answer["command"]] if isinstance(answer.get("command"), str) else []
        return own + [line for each in answer.values() for line in commands_in(each)]
    return []


def client_properties(greeting: str) -> str:
    """The file that the console shows beside a command, from the listener that the start printed."""
    settings = settings_of(kcat(greeting))
    mechanisms = (settings["sasl.mechanism"],) if "sasl.mechanism" in settings else ()
    endpoint = ClientEndpoint(
        settings["bootstrap.servers"],
        settings.get("security.protocol", "PLAINTEXT"),
        mechanisms,
        needs_certificate="ssl.key.location" in settings,
    )
    return as_a_reader(endpoint.client_properties())


def read_and_commit(settings: Mapping[str, str]) -> None:
    """Leave a group without members and with a committed offset."""
    consumer = Consumer({**settings, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.commit(offsets=[TopicPartition("printed", 0, 0)], asynchronous=False)
    consumer.close()


def begin_a_transaction(settings: Mapping[str, str]) -> None:
    producer = Producer({**settings, "transactional.id": "payments"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("printed", b"open")
    producer.flush(30)


@pytest.mark.slow
@NEEDS_TOOLS
def test_the_commands_of_kafkas_tools_do_what_the_answer_shows(
    greeting: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "client.properties").write_text(client_properties(greeting))
    console = re.findall(r"REST:    http://([^/]+)/", greeting)[0]
    settings = settings_of(kcat(greeting))
    for method, path, body in ASKED:
        if path.startswith("groups"):
            read_and_commit(settings)
        if path.startswith("transactions"):
            begin_a_transaction(settings)
        [line] = commands_in(ask_console(console, method, f"/api/v1/{path}?validate_only=true", body))
        program, *arguments = shlex.split(line)
        kafka_tools.run(TOOLS[program], *arguments)
    rules = ask_console(console, "GET", "/api/v1/client-quotas")["items"]
    assert {"user": "eve"} in [each["entity"] for each in rules]
    [retention] = [
        each["value"]
        for each in ask_console(console, "GET", "/api/v1/topics/printed/configs?limit=100")["items"]
        if each["name"] == "retention.ms"
    ]
    assert retention == "86400000"


def console_of(greeting: str) -> str:
    return re.findall(r"REST:    http://([^/]+)/", greeting)[0]


def run_line(line: str) -> None:
    program, *arguments = shlex.split(line)
    kafka_tools.run(TOOLS[program], *arguments)


def quota_of(console: str, user: str) -> object:
    rules = ask_console(console, "GET", "/api/v1/client-quotas")["items"]
    return [
        each["limits"]["producer_byte_rate"]["value"] for each in rules if each["entity"] == {"user": user}
    ]


def setting_of(console: str, path: str, name: str) -> str | None:
    items = ask_console(console, "GET", f"/api/v1/{path}?limit=500")["items"]
    return next(each["value"] for each in items if each["name"] == name)


USER: Final = "o'brien, the 2nd"
UNDONE: Final = (
    *(
        (
            "client-quotas",
            {"entries": [{"entity": {"user": USER}, "ops": [{"key": "producer_byte_rate", "value": value}]}]},
        )
        for value in (1_000, 2_500)
    ),
    *(
        ("topics/undone/configs", {"ops": [{"key": "cleanup.policy", "value": value}]})
        for value in ("compact,delete", "delete")
    ),
    *(("broker-configs", {"ops": [{"key": "max.connections", "value": value}]}) for value in ("500", "600")),
)
"""Changes in pairs, of which the second is undone: PATCH of what, with which body."""


@pytest.mark.slow
@NEEDS_TOOLS
def test_the_commands_beside_an_undo_restore_the_old_value(
    greeting: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "client.properties").write_text(client_properties(greeting))
    console = console_of(greeting)
    ask_console(console, "POST", "/api/v1/topics", {"name": "undone", "partitions": 1})
    looks: tuple[Callable[[], object], ...] = (
        lambda: quota_of(console, USER),
        lambda: setting_of(console, "topics/undone/configs", "cleanup.policy"),
        lambda: setting_of(console, "broker-configs", "max.connections"),
    )
    for look, first, second in zip(looks, UNDONE[::2], UNDONE[1::2], strict=True):
        ask_console(console, "PATCH", f"/api/v1/{first[0]}", first[1])
        before = look()
        ask_console(console, "PATCH", f"/api/v1/{second[0]}", second[1])
        assert look() != before
        newest = ask_console(console, "GET", "/api/v1/audit?limit=1&without_broker=true")["items"][0]
        path = f"/api/v1/audit/{newest['id']}:undo?validate_only=true"
        run_line(ask_console(console, "POST", path)["command"])
        assert look() == before


@pytest.mark.slow
@NEEDS_TOOLS
def test_the_command_of_the_doctor_raises_the_limit_that_is_nearly_used_up(
    greeting: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "client.properties").write_text(client_properties(greeting))
    console = console_of(greeting)
    host, _, port = settings_of(kcat(greeting))["bootstrap.servers"].rpartition(":")
    limit = {"ops": [{"key": "max.connections", "value": "20"}]}
    ask_console(console, "PATCH", "/api/v1/broker-configs", limit)

    def printed() -> list[str]:
        return commands_in(ask_console(console, "GET", "/api/v1/doctor"))

    with ExitStack() as held:
        for _ in range(15):
            held.enter_context(socket.create_connection((host.strip("[]"), int(port)), timeout=20))
        [line] = within(10, printed, "the doctor proposes a command")
    run_line(line)
    assert setting_of(console, "broker-configs", "max.connections") == "40"


def test_the_commands_of_weir_beside_an_edit_do_what_they_say(greeting: str) -> None:
    console = console_of(greeting)
    environment = os.environ | {"WEIR_TOKEN": TOKEN}
    environment.pop("WEIR_CONSOLE", None)  # the shell knows nothing of this console

    def weir(*arguments: str) -> str:
        done = subprocess.run(
            [WEIR, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for entity in ({"user": USER}, {"user": USER, "client-id": "app 1"}, {"client-id": None}):
        body = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 5_000}]}
        ask_console(console, "PATCH", "/api/v1/client-quotas", {"entries": [body]})
        for shadow in (True, False):
            entry = {"entity": entity, "ops": [], "shadow": shadow}
            asked = f"/api/v1/client-quotas?validate_only={str(shadow).lower()}"
            answer = ask_console(console, "PATCH", asked, {"entries": [entry]})
            if not shadow:  # mark it again, so that the printed command has something to do
                ask_console(
                    console, "PATCH", "/api/v1/client-quotas", {"entries": [entry | {"shadow": True}]}
                )
            [line] = commands_in(answer)
            program, *arguments = shlex.split(line)
            assert program == "weir"
            weir(*arguments)
            [rule] = [
                each
                for each in ask_console(console, "GET", "/api/v1/client-quotas")["items"]
                if each["entity"] == entity
            ]
            assert rule["shadow"] is shadow
    assert USER in weir("quotas", "--console", f"http://{console}", "list")
