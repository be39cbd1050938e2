"""The broker's image as README.md starts it: what it may do, what it serves, how it stops, what it keeps."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.common.version import VERSION
from tests.image.broker_container import DATA, BrokerContainer, serving
from tests.image.containers import COMMIT, HARDENED, Engine, labels

pytestmark = pytest.mark.image

ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = "909"
TOKEN: Final = "a-token-of-the-image-test-0123456789abcdef"
TOKEN_FILE: Final = "/run/secrets/weir-token"

MOST_MB: Final = 150
"""All of the image. Byte code is in it, as a read-only container could not write it."""

CONTEXT_MB: Final = 9
"""Measured: 7.3 MB."""


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text(f"{TOKEN}\n", encoding="ascii")
    path.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def broker(engine: Engine, image: str, secret: Path) -> Iterator[BrokerContainer]:
    options = (f"--volume={secret}:{TOKEN_FILE}:ro", f"--env=WEIR_ADMIN_TOKEN_FILE={TOKEN_FILE}")
    with engine.volume() as volume, serving(engine, image, volume, options=options) as broker:
        yield broker


# What the image is


def test_the_image_names_its_user_volume_ports_and_signal(engine: Engine, image: str) -> None:
    config = engine.inspect(image)["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert list(config["Volumes"]) == [DATA]
    assert sorted(config["ExposedPorts"]) == ["8080/tcp", "9092/tcp"]
    assert config["StopSignal"] == "SIGTERM"


def test_the_labels_name_the_image_its_version_and_its_commit(engine: Engine, image: str) -> None:
    """What is not given is empty, as the sources' address is here."""
    assert labels(engine, image) == {
        "title": "weir",
        "description": "A Kafka-wire broker that protects a shared cluster from its own tenants, and shows "
        "what it does",
        "licenses": "Apache-2.0",
        "version": VERSION,
        "revision": COMMIT,
        "source": "",
    }


def test_the_image_is_small(engine: Engine, image: str) -> None:
    assert 50e6 < int(engine.inspect(image)["Size"]) < MOST_MB * 1e6


def test_the_image_says_what_it_consists_of(engine: Engine, image: str) -> None:
    """In CycloneDX's format for Python, and in Debian's for what comes from its packages."""
    bill = json.loads(engine.run(image, "cat", "/opt/weir/share/weir.cdx.json").stdout)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "weir-broker")
    listed = {each["name"].lower(): each["version"] for each in bill["components"]}
    text = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    installed = dict(each.lower().split("==") for each in _python(engine, image, text).split())
    assert len(installed) > 30 and listed == {k: v for k, v in installed.items() if k != "weir-broker"}
    packages = _python(engine, image, "import os; print(*os.listdir('/var/lib/dpkg/status.d'))").split()
    assert {"libc6", "libssl3", "dash"} <= set(packages)


def test_the_same_sources_have_the_same_times(engine: Engine, image: str) -> None:
    """Of all files but those that the engine makes."""
    text = """
import os
times = {
    int(os.lstat(os.path.join(folder, name)).st_mtime)
    for top in ("/opt", "/usr", "/var/lib/dpkg")
    for folder, _, names in os.walk(top)
    for name in names
}
print(*times)
"""
    assert len(_python(engine, image, text).split()) == 1


def test_neither_pip_nor_a_compiler_came_along(engine: Engine, image: str) -> None:
    found = engine.run(image, "python3", "-c", "import weir.broker, weir.webui, weir.pipeline; import pip")
    assert "No module named 'pip'" in found.stderr
    assert engine.run(image, "sh", "-c", "command -v cc gcc make apt-get dpkg").stdout == ""


def test_the_hot_modules_are_compiled(engine: Engine, image: str) -> None:
    assert engine.run(image, "weir", "--version").stdout.endswith(", compiled\n")


def test_the_build_context_is_what_the_image_installs(engine: Engine, tmp_path: Path) -> None:
    name = "localhost/weir-context:test"
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM scratch\nCOPY . /\n", encoding="ascii")
    engine.output("build", "--quiet", f"--file={dockerfile}", f"--tag={name}", str(ROOT))
    try:
        assert 1e6 < engine.inspect(name)["Size"] < CONTEXT_MB * 1e6
    finally:
        engine.output("image", "rm", name)


def test_the_user_can_write_to_the_data_and_to_temporary_folders_only(engine: Engine, image: str) -> None:
    text = """
import os
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [each for each in folders if each not in ("dev", "proc", "sys")]
    for path in (folder, *(os.path.join(folder, name) for name in files)):
        if not os.path.islink(path) and os.access(path, os.W_OK):
            print(path)
"""
    assert set(_python(engine, image, text).split()) == {"/tmp", DATA}


def _python(engine: Engine, image: str, text: str) -> str:
    ended = engine.run(image, "python3", "-c", text)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


# What it serves


def test_the_broker_is_process_1_of_an_ordinary_user(broker: BrokerContainer) -> None:
    status = dict(
        line.split(":\t", 1) for line in broker.container.exec("cat", "/proc/1/status").stdout.splitlines()
    )
    assert status["Uid"].split() == status["Gid"].split() == [USER] * 4
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert "weir\0serve" in broker.container.exec("cat", "/proc/1/cmdline").stdout


def test_nothing_but_the_volume_can_be_written(broker: BrokerContainer) -> None:
    for folder in ("/tmp", "/opt/weir", "/etc/weir"):
        refused = broker.container.exec("python3", "-c", f"open('{folder}/new', 'w')")
        assert "Read-only file system" in refused.stderr, folder
    assert broker.container.exec("python3", "-c", f"open('{DATA}/new', 'w')").returncode == 0


def test_the_health_check_needs_a_broker(engine: Engine, image: str, broker: BrokerContainer) -> None:
    command = broker.container.health_check()
    assert broker.container.exec(*command).returncode == 0
    alone = engine.run(image, *command)
    assert alone.returncode == 1 and "Connection refused" in alone.stderr


def test_a_record_goes_in_and_comes_out(broker: BrokerContainer) -> None:
    broker.create("greetings", TOKEN)
    broker.produce("greetings", b"hello")
    assert broker.consume("greetings") == b"hello"


def test_kafka_clients_do_not_administer(broker: BrokerContainer) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    refusal = admin.create_topics([NewTopic("refused", 1, 1)])["refused"].exception(20)
    assert isinstance(refusal, KafkaException), "a client of the published port made a topic"
    assert refusal.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, refusal


def test_metrics_and_rest_need_the_token_of_the_secret(broker: BrokerContainer) -> None:
    for path in ("/metrics", "/api/v1/overview"):
        assert broker.get(path).status == 401
        assert broker.get(path, Authorization=f"Bearer {TOKEN}").status == 200
    page = broker.get("/metrics", Authorization=f"Bearer {TOKEN}").body
    assert re.search(r"(?m)^kafka_server_\w+(?:\{.*\})? [0-9.]+", page), page[:500]


def test_a_link_made_in_the_container_logs_a_browser_in(broker: BrokerContainer) -> None:
    login = broker.get("/")
    assert login.status == 401 and "<h1>Log in</h1>" in login.body
    (command,) = re.findall(r"`(weir console-link.*)` prints", broker.container.log())
    link = broker.container.exec(*command.split()).stdout.strip()
    code = link.partition("/?code=")[2]
    entered = broker.get(f"/?code={code}", Sec_Fetch_Site="none")
    assert entered.status == 303, entered
    cookie = entered.headers["Set-Cookie"].partition(";")[0]
    page = broker.get("/", Cookie=cookie)
    assert page.status == 200 and "<h1>Log in</h1>" not in page.body
    assert broker.get(f"/?code={code}", Sec_Fetch_Site="none").status == 401


# How it stops, and what it keeps


def test_a_record_and_the_token_outlive_their_container(engine: Engine, image: str) -> None:
    with engine.volume() as volume:
        with serving(engine, image, volume, options=(f"--env=WEIR_ADMIN_TOKEN={TOKEN}",)) as broker:
            broker.create("greetings", TOKEN)
            broker.produce("greetings", b"hello from the first container")
            assert broker.container.stop() == 0
            assert "stopping signal=SIGTERM" in broker.container.log()
        with serving(engine, image, volume) as broker:
            assert broker.consume("greetings") == b"hello from the first container"
            assert broker.get("/metrics", Authorization=f"Bearer {TOKEN}").status == 200


def test_the_first_log_has_a_link_and_no_token(engine: Engine, image: str) -> None:
    with engine.volume() as volume, serving(engine, image, volume) as broker:
        log = broker.container.log()
        assert re.search(r"(?m)^Kafka:   127\.0\.0\.1:\d+$", log) and "first record" not in log
        (code,) = re.findall(rf"(?m)^Console: http://{broker.console_name}/\?code=([\w-]+)$", log)
        assert "Token:   shown at a terminal only" in log
        assert broker.get(f"/?code={code}", Sec_Fetch_Site="none").status == 303


def test_a_stop_right_after_the_start_is_clean(engine: Engine, image: str) -> None:
    """The kernel drops a SIGTERM for process 1 that has no handler: the engine would then kill it."""
    with engine.started(image) as container:
        assert container.stop() == 0, container.log()


def test_a_wrong_setting_ends_it_with_one_line(engine: Engine, image: str) -> None:
    with engine.started(image, "--override=num.io.threads=none") as container:
        assert container.wait() == 1
        assert re.fullmatch(r"Error: num\.io\.threads.*\n", container.log())


def test_a_variable_is_a_setting(engine: Engine, image: str) -> None:
    """It wins over the image's file."""
    options = (*HARDENED, "--env=WEIR_ADVERTISED_LISTENERS=PLAINTEXT://kafka.example:19092")
    with engine.started(image, options=options) as container:
        container.await_health()
        assert "Kafka:   kafka.example:19092\n" in container.log()


def test_a_published_listener_with_logins_refuses_a_client_without_one(
    engine: Engine, image: str, tmp_path: Path
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(_documented_properties(), encoding="utf-8")
    properties.chmod(0o644)
    options = (
        f"--volume={properties}:/etc/weir/server.properties:ro",
        f"--env=WEIR_ADMIN_TOKEN={TOKEN}",
    )
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    with (
        engine.volume() as volume,
        serving(engine, image, volume, protocol="SASL_PLAINTEXT", options=options) as broker,
    ):
        broker.create("greetings", TOKEN)
        broker.produce("greetings", b"hello", **login, sasl_password="alice-secret")
        refused: list[KafkaError] = []
        anonymous = Producer({"bootstrap.servers": broker.bootstrap, "error_cb": refused.append})
        anonymous.produce("greetings", b"hello")
        anonymous.flush(5)
        assert len(anonymous) == 1 and refused
        anonymous.purge()


def _documented_properties() -> str:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = text.partition("### In a container\n")[2]
    found = re.search(r"(?s)```properties\n(.*?)```", section)
    assert found is not None
    return found[1]
