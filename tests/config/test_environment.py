"""Settings in environment variables, beside those of the file and of the command line."""

from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config import environment
from broker.config.load import load
from broker.config.table import SPELLINGS

OTHERS = """
WEIR_ADMIN_TOKEN_FILE WEIR_BUILD WEIR_CA_FILE WEIR_CLUSTER_KEYS_FILE WEIR_COMPILED WEIR_CONSOLE
WEIR_CONSOLE_PORT WEIR_GATEWAY_PARENT WEIR_IMAGE WEIR_IMAGE_COMMIT WEIR_IMAGE_ENGINE WEIR_IMAGE_OPTIONS
WEIR_KAFKA_LIBS WEIR_KAFKA_PORT WEIR_OPT_LEVEL WEIR_PIPELINE_ALIVE WEIR_PIPELINE_IMAGE WEIR_PIPELINE_JARS
WEIR_PROGRAM WEIR_PYTHON WEIR_REQUIREMENTS WEIR_SOURCES WEIR_TOKEN WEIR_VENV WEIR_WAREHOUSE _WEIR_COMPLETE
"""
"""Variables of Weir's own programs and tests."""

OF_KUBERNETES = """
WEIR_SERVICE_HOST WEIR_SERVICE_PORT WEIR_SERVICE_PORT_KAFKA WEIR_PORT WEIR_PORT_9092_TCP
WEIR_PORT_9092_TCP_PROTO WEIR_PORT_9092_TCP_PORT WEIR_PORT_9092_TCP_ADDR
"""
"""Those that a pod has for a service named weir."""


def variable_of(key: str) -> str:
    """Return the variable's name, by the rule of Kafka's container image."""
    written = key.replace("_", "__").replace("-", "___").replace(".", "_")
    return environment.PREFIX + written.upper()


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("WEIR_LISTENERS", "listeners"),
        ("WEIR_LOG_DIRS", "log.dirs"),
        ("WEIR_LISTENER_NAME_SASL__SSL_SSL_CLIENT_AUTH", "listener.name.sasl_ssl.ssl.client.auth"),
        (
            "WEIR_LISTENER_NAME_OUTER_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.outer.scram-sha-256.sasl.jaas.config",
        ),
    ],
)
def test_a_variable_is_a_key_by_the_rule_of_kafkas_image(variable: str, key: str) -> None:
    assert variable_of(key) == variable
    assert environment.key_of(variable) == key


def test_every_key_has_a_variable_of_its_own() -> None:
    variables = {variable_of(key): "x" for key in SPELLINGS}
    assert len(variables) == len(SPELLINGS)
    assert {key for _, key, _ in environment.settings(variables)} == set(SPELLINGS)


def test_no_variable_of_another_purpose_is_a_setting() -> None:
    more = "WEIR_ WEIR LISTENERS KAFKA_LISTENERS weir_listeners"
    for name in f"{OTHERS} {OF_KUBERNETES} {more}".split():
        assert list(environment.settings({name: "tcp://10.0.0.1:9092"})) == []
        if name not in (environment.TOKEN_FILE, environment.CLUSTER_KEYS_FILE):
            assert load(None, [], {name: "tcp://10.0.0.1:9092"}).warnings == ()


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nnum.io.threads=3\nnode.id=4\n", encoding="utf-8")
    environ = {"WEIR_NUM_PARTITIONS": "5", "WEIR_NUM_IO_THREADS": "6"}
    loaded = load(path, ["num.partitions=7"], environ)
    assert loaded.config.topics.num_partitions == 7
    assert loaded.config.network.num_io_threads == 6
    assert loaded.config.broker.node_id == 4
    places = {
        "num.partitions": "",
        "num.io.threads": "the variable WEIR_NUM_IO_THREADS",
        "node.id": f"{path} line 3",
    }
    assert loaded.places == places


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n", encoding="utf-8")
    assert load(path, [], {"WEIR_NUM_PARTITIONS": ""}).config.topics.num_partitions == 2


@pytest.mark.parametrize(("value", "is_refused"), [("0", True), ("1", False), ("x", True), (" 2 ", False)])
def test_a_bad_value_stops_the_start_with_the_variable_and_the_key(value: str, is_refused: bool) -> None:
    environ = {"WEIR_NUM_PARTITIONS": value}
    if not is_refused:
        assert load(None, [], environ).config.topics.num_partitions == int(value)
        return
    with pytest.raises(ConfigError) as refused:
        load(None, [], environ)
    text = str(refused.value)
    assert "the variable WEIR_NUM_PARTITIONS" in text and "num.partitions" in text and value in text


@pytest.mark.parametrize("is_variable", [True, False])
def test_bytes_that_are_not_utf_8_stop_the_start(is_variable: bool) -> None:
    """Python makes half a character of such a byte, which no login, no log and no response can have."""
    value = b"/data/\xc3\xbc\xff".decode(errors="surrogateescape")
    overrides, environ = ([], {"WEIR_LOG_DIRS": value}) if is_variable else ([f"log.dirs={value}"], {})
    place = "the variable WEIR_LOG_DIRS" if is_variable else "--override"
    with pytest.raises(ConfigError) as refused:
        load(None, overrides, environ)
    assert str(refused.value) == f"{place}: byte=b'\\xff' is not allowed: UTF-8 text"


def test_a_misspelt_variable_warns_and_names_the_key() -> None:
    (warning,) = load(None, [], {"WEIR_LISTENER": "PLAINTEXT://:9092"}).warnings
    assert (
        warning == "the variable WEIR_LISTENER: unknown key listener; it is ignored (did you mean listeners?)"
    )
