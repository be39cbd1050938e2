"""The files of Compose: what its schema allows, settings that Weir has, ports of this machine only, pinned
images, files that exist.

Compose itself does not run here; tests/image runs the images.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from broker.config.environment import settings
from broker.config.load import Configuration, load
from broker.gateway.sharing.signing import read_keys
from tests.conventions.sources import ROOT

FILES: Final = ("compose.yaml", "compose.cluster.yaml")
DEFAULT: Final = re.compile(r"\$\{\w+:-([^}]*)\}")
IMAGE_SETTINGS: Final = ROOT / "deploy" / "image" / "server.properties"


def _document(name: str, **variables: str) -> dict[str, Any]:
    text = (ROOT / name).read_text(encoding="utf-8")
    for variable, value in variables.items():
        text = re.sub(rf"\$\{{{variable}:-[^}}]*\}}", value, text)
    text = DEFAULT.sub(r"\1", text)
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def _services(name: str) -> dict[str, dict[str, Any]]:
    """Return the services, with what they extend."""
    services: dict[str, dict[str, Any]] = _document(name)["services"]
    return {key: _extended(service) for key, service in services.items()}


def _extended(service: dict[str, Any]) -> dict[str, Any]:
    if "extends" not in service:
        return service
    base = _services(service["extends"]["file"])[service["extends"]["service"]]
    own = {key: value for key, value in service.items() if key != "extends"}
    return base | own | {"volumes": base.get("volumes", []) + own.get("volumes", [])}


NODES: Final = ("kafka-1", "kafka-2", "kafka-3")
GATEWAYS: Final = ("gateway-1", "gateway-2")
SERVICES: Final = [
    pytest.param(name, service, id=f"{name}-{service}") for name in FILES for service in _services(name)
]


def _checked(path: Path) -> "subprocess.CompletedProcess[str]":
    """Check a file against the schema of the Compose specification, which check-jsonschema brings."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, str(path)], capture_output=True, text=True)


@pytest.mark.parametrize("name", FILES)
def test_compose_knows_every_key(name: str) -> None:
    done = _checked(ROOT / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("key", "wrong"), [("volumes:", "volume:"), ("command:", "commands:")])
def test_a_key_that_compose_does_not_know_is_found(tmp_path: Path, name: str, key: str, wrong: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert f"    {key}" in text
    file = tmp_path / name
    file.write_text(text.replace(f"    {key}", f"    {wrong}", 1), encoding="utf-8")
    done = _checked(file)
    assert done.returncode == 1 and repr(wrong.rstrip(":")) in done.stdout


CONSOLES: Final = (
    ("compose.yaml", "broker"),
    ("compose.cluster.yaml", "gateway-1"),
    ("compose.cluster.yaml", "gateway-2"),
)


def _loaded(service: dict[str, Any]) -> Configuration:
    """The configuration of a container. Its token's file is not here."""
    given = {name: str(value or "") for name, value in service["environment"].items()}
    assert given.pop("WEIR_ADMIN_TOKEN_FILE") == "/run/secrets/weir-token"
    assert {name for name, _, _ in settings(given)} == {name for name, value in given.items() if value}
    return load(IMAGE_SETTINGS, [], given)


@pytest.mark.parametrize(("name", "service"), CONSOLES)
def test_the_settings_are_a_configuration(name: str, service: str) -> None:
    given = _services(name)[service]
    configuration = _loaded(given)
    assert [warning for warning in configuration.warnings if "unknown" in warning] == []
    console = configuration.config.console
    assert service in console.allowed_hosts, "Prometheus asks by this name"
    published = {port.split(":")[-1] for port in given["ports"]}
    listening = {str(each.port) for each in configuration.config.network.resolved_listeners()}
    assert published & listening and "8080" in published


@pytest.mark.parametrize(("name", "service"), CONSOLES)
def test_a_console_sends_browsers_to_the_port_that_is_published(name: str, service: str) -> None:
    given = _services(name)[service]
    (port,) = [port.split(":")[1] for port in given["ports"] if port.endswith(":8080")]
    public = _loaded(given).config.console.public_url
    assert (public or "http://weir-8080.localhost:8080") == f"http://weir-{port}.localhost:{port}"


def test_another_port_of_the_console_is_also_in_its_address() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    text = DEFAULT.sub(r"\1", text.replace("${WEIR_CONSOLE_PORT:-8080}", "9999"))
    broker = yaml.safe_load(text)["services"]["broker"]
    assert "127.0.0.1:9999:8080" in broker["ports"]
    public = _loaded(broker).config.console.public_url
    assert public == "http://weir-9999.localhost:9999"


def test_the_pipeline_of_both_files_is_the_same_but_for_its_brokers() -> None:
    """The second file does not extend the first: some programs for these files join the two commands."""
    one, other = (_services(name)["pipeline"] for name in FILES)
    assert one | {"command": other["command"]} == other
    assert one["command"] == ["broker:19092" if "kafka-1" in word else word for word in other["command"]]


@pytest.mark.parametrize(("name", "service"), SERVICES)
def test_ports_are_open_to_this_machine_only(name: str, service: str) -> None:
    ports = _services(name)[service].get("ports", [])
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize(("name", "service"), SERVICES)
def test_an_image_of_others_has_an_exact_version_and_a_digest(name: str, service: str) -> None:
    given = _services(name)[service]
    assert "build" in given or re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", given["image"])


@pytest.mark.parametrize(("name", "service"), SERVICES)
def test_mounted_files_exist_and_volumes_are_declared(name: str, service: str) -> None:
    given, document = _services(name)[service], _document(name)
    for volume in given.get("volumes", []):
        source = volume.split(":")[0]
        assert (ROOT / source).exists() if source.startswith("./") else source in document["volumes"], source
    assert set(given.get("secrets", [])) <= set(document["secrets"])


@pytest.mark.parametrize("name", FILES)
def test_no_port_is_published_twice(name: str) -> None:
    ports = [port.rsplit(":", 1)[0] for each in _services(name).values() for port in each.get("ports", [])]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("name", FILES)
def test_weirs_own_containers_have_no_privileges(name: str) -> None:
    ours = [each for each in _services(name).values() if each["image"].startswith("weir")]
    assert len(ours) > 1
    for each in ours:
        assert each["read_only"] is True and each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize(("name", "file"), [(FILES[0], "broker.yml"), (FILES[1], "gateways.yml")])
def test_prometheus_asks_every_console(name: str, file: str) -> None:
    targets = yaml.safe_load((ROOT / "deploy/prometheus/targets" / file).read_text(encoding="utf-8"))
    consoles = [
        key for key, each in _services(name).items() if each["image"] == "weir:compose" and "ports" in each
    ]
    assert targets == [{"targets": [f"{console}:8080" for console in consoles]}]


def test_kafkas_nodes_find_each_other_and_keep_their_data() -> None:
    services = _services("compose.cluster.yaml")
    given = {node: services[node]["environment"] for node in NODES}
    voters = ",".join(f"{given[node]['KAFKA_NODE_ID']}@{node}:9093" for node in NODES)
    for node in NODES:
        assert given[node]["KAFKA_CONTROLLER_QUORUM_VOTERS"] == voters
        assert given[node]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{node}:9092"
        assert services[node]["volumes"] == [f"{node}:{given[node]['KAFKA_LOG_DIRS']}"]


def test_the_gateways_and_the_pipeline_are_told_of_every_node() -> None:
    services = _services("compose.cluster.yaml")
    brokers = ",".join(f"{node}:9092" for node in NODES)
    for gateway in GATEWAYS:
        assert services[gateway]["environment"]["WEIR_UPSTREAM_BOOTSTRAP_SERVERS"] == brokers
    command = services["pipeline"]["command"]
    assert command[command.index("--bootstrap") + 1] == brokers


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_has_time_to_drain(name: str) -> None:
    service = _services("compose.cluster.yaml")[name]
    drain_s = _loaded(service).config.gateway.drain_timeout_ms / 1_000
    assert service["stop_grace_period"] == f"{drain_s + 120:.0f}s"


@pytest.mark.parametrize("name", GATEWAYS)
def test_each_gateway_publishes_a_port_for_each_node(name: str) -> None:
    """It has the same number inside and outside, as clients are told it."""
    services = _services("compose.cluster.yaml")
    first = services[name]["environment"]["WEIR_GATEWAY_PORT_RANGE"].partition("-")[0]
    ids = [services[node]["environment"]["KAFKA_NODE_ID"] for node in NODES]
    ports = f"{int(first) + min(ids)}-{int(first) + max(ids)}"
    assert f"127.0.0.1:{ports}:{ports}" in services[name]["ports"]


def test_the_gateways_share_a_key_that_is_made_once(tmp_path: Path) -> None:
    services = _services("compose.cluster.yaml")
    maker = services["cluster-key"]
    command = [sys.executable, *maker["entrypoint"][1:], *maker["command"]]
    for _ in range(2):
        subprocess.run(command, cwd=tmp_path, check=True)
        (file,) = tmp_path.iterdir()
        key = file.read_text(encoding="ascii")
        (tmp_path / file).chmod(0o400)
    assert file.read_text(encoding="ascii") == key and file.name == "cluster-keys"
    assert len(read_keys("keys", key)) == 1
    folder = maker["volumes"][0].partition(":")[0]
    for gateway in GATEWAYS:
        assert f"{folder}:/run/weir-cluster:ro" in services[gateway]["volumes"]
        config = _loaded(services[gateway]).config
        assert config.gateway.cluster_keys_location == "/run/weir-cluster/cluster-keys"
        config.gateway.check(config.upstream, config.quotas.scope)


def test_the_token_is_ignored_by_git() -> None:
    file = _document("compose.yaml")["secrets"]["weir-token"]["file"].removeprefix("./")
    assert f"/{file}" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("name", "service"), CONSOLES)
def test_a_balancer_can_be_named(name: str, service: str) -> None:
    """It is before the listener of clients outside alone: what is inside connects directly."""
    named = _document(name, WEIR_PROXY_PROTOCOL="require", WEIR_PROXY_TRUSTED="10.0.0.5,10.0.1.0/24")
    for document, expected in (
        (_document(name), ("none", [])),
        (named, ("require", ["10.0.0.5/32", "10.0.1.0/24"])),
    ):
        network = _loaded(document["services"][service]).config.network
        network.check()
        own = network.for_listener("PLAINTEXT")
        trusted = [str(each) for each in own.proxy_protocol_trusted_addresses]
        assert (own.proxy_protocol, trusted) == expected
        assert network.for_listener("INSIDE").proxy_protocol == "none"
