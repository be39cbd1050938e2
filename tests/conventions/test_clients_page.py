"""docs/clients.md has the versions of the clients that the tests install."""

import json
import re
from pathlib import Path
from typing import Final

from broker.common.version import KAFKA_VERSION
from tests.conventions.sources import ROOT

PAGE: Final = ROOT / "docs" / "clients.md"
ENDTOEND: Final = ROOT / "tests" / "endtoend"
GO_MODULES: Final = {
    "franz-go": "franz/go.mod",
    "sarama": "go_clients/go.mod",
    "kafka-go": "go_clients/go.mod",
}


def installed() -> dict[str, str]:
    """Return the version of each client, by its name in lower case."""
    locked = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE))
    found = {name: locked[name] for name in ("confluent-kafka", "kafka-python", "aiokafka")}
    for name, path in GO_MODULES.items():
        required = re.search(rf"/{name} v(\S+)", (ENDTOEND / path).read_text(), re.IGNORECASE)
        assert required is not None
        found[name] = required[1]
    packages = json.loads((ENDTOEND / "js_clients/package.json").read_text())["dependencies"]
    found |= {name: packages[name] for name in ("kafkajs", "@platformatic/kafka")}
    found |= dict.fromkeys(("kafka's java client", "kafka streams"), KAFKA_VERSION)
    found |= dict.fromkeys(("kafka connect", "mirrormaker 2"), _of_pom("connect"))
    found["flink"] = _of_pom("flink")
    crate = re.search(r'^rskafka = .*"=([\d.]+)"', _text(ENDTOEND / "rust_clients/Cargo.toml"), re.MULTILINE)
    assert crate is not None
    return found | {"rskafka": crate[1]}


def _of_pom(kind: str) -> str:
    (version,) = re.findall(rf"<{kind}.version>(.+)</", _text(ENDTOEND / "jvm_clients" / kind / "pom.xml"))
    return str(version)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_client_has_the_version_that_is_tested() -> None:
    rows = re.findall(r"^\| ([^|]+?)(?: \([^|]*\))? \| ([\d.]+) \|", _text(PAGE), re.MULTILINE)
    assert {name.lower(): version for name, version in rows} == installed()
