"""Fetches the jars of a Kafka version, and reads its tables: messages, API keys, configuration keys, features
and the usage of its tools.

Needs Java 17 and Maven. The jars of each version stay in .cache/upstream, with what Tables.java found in
them.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from benchmarks.install import fetch_kafka

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache" / "upstream"
PROGRAM: Final = Path(__file__).with_name("Tables.java")
WITHIN_S: Final = 300
MESSAGES: Final = "common/message/"
"""The folder of the messages in kafka-clients.jar, and of the coordinators' records in other jars."""


class Tables(NamedTuple):
    """The tables of one version. `messages` are Kafka's schema files by name, without the prose of their
    fields; `configs` the definitions of keys by kind of resource (broker, topic, group, client-metrics);
    `features` three levels by name; `tools` the usage by the class of the tool.
    """

    version: str
    messages: dict[str, dict[str, Any]]
    configs: dict[str, dict[str, dict[str, Any]]]
    features: dict[str, list[int]]
    tools: dict[str, str]

    @property
    def apis(self) -> dict[int, str]:
        """The versions that a broker serves to clients, by API key: of unstable ones, none."""
        return {
            each["apiKey"]: each["validVersions"] + (" unstable" if each.get("latestVersionUnstable") else "")
            for each in self.messages.values()
            if each["type"] == "request"
            and "broker" in each.get("listeners", ())
            and each["validVersions"] != "none"
        }


def libs_of(version: str) -> Path:
    """Return the folder with the jars of this version, or of a range of Maven's such as `[4.4.0,)`."""
    found = CACHE / version / "libs"
    if version.startswith("["):
        # The newest of a range may be another one each week: its jars move to their own version.
        found = CACHE / "newest" / "libs"
        shutil.rmtree(found, ignore_errors=True)
    if not list(found.glob("kafka-clients-*.jar")):
        fetch_kafka(version, found)
    (clients,) = found.glob("kafka-clients-*.jar")
    resolved = clients.stem.removeprefix("kafka-clients-")
    if version.startswith("["):
        kept = CACHE / resolved / "libs"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            found.rename(kept)
        found = kept
    return found


def read_version(version: str) -> Tables:
    """Fetch the jars of this version, or of the newest one in a range of Maven's, and read them."""
    return read(libs_of(version))


def read(libs: Path) -> Tables:
    (clients,) = libs.glob("kafka-clients-*.jar")
    version = clients.stem.removeprefix("kafka-clients-")
    messages = {name: each for jar in sorted(libs.glob("kafka*.jar")) for name, each in _messages(jar)}
    kept = CACHE / version / "tables.json"
    if not kept.exists() or kept.stat().st_mtime < max(PROGRAM.stat().st_mtime, clients.stat().st_mtime):
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Djava.security.manager=allow")
        command = ["java", *options, "-cp", f"{libs}/*", str(PROGRAM)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        kept.parent.mkdir(parents=True, exist_ok=True)
        written = kept.with_suffix(f".{os.getpid()}")  # another process may read it
        written.write_text(done.stdout, encoding="utf-8")
        written.replace(kept)
    return Tables(version, messages, **json.loads(kept.read_text(encoding="utf-8")))


def _messages(jar: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with ZipFile(jar) as archive:
        for path in archive.namelist():
            if path.startswith(MESSAGES) and path.endswith(".json"):
                text = archive.read(path).decode()
                yield Path(path).stem, json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
