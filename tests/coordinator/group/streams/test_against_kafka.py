"""Our results are those of Kafka 4.4's own classes: of stored cases always, of more cases where Java and the
jars are, WEIR_KAFKA_LIBS says where:

mvn dependency:copy-dependencies -DoutputDirectory=DIR    # of kafka_2.13, 4.4.0
WEIR_KAFKA_LIBS=DIR python -m tests.coordinator.group.streams.test_against_kafka    # stores the cases anew
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.coordinator.group.streams.random_cases import (
    Case,
    assign_case,
    configure_case,
    order_case,
    our_result,
)

PROGRAM: Final = Path(__file__).with_name("KafkaResults.java")
STORED: Final = Path(__file__).with_name("kafka_results.jsonl")
LIBS: Final = os.environ.get("WEIR_KAFKA_LIBS")
JAR: Final = "kafka-group-coordinator-4.4.0.jar"
WITHIN_S: Final = 300
STORED_OF_A_KIND: Final = 30

needs_kafka = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("javac") is None or LIBS is None or not Path(LIBS, JAR).exists(),
        reason="needs a JDK, and WEIR_KAFKA_LIBS that says where the jars of Kafka 4.4 are",
    ),
]


def results_of_kafka(cases: list[Case]) -> list[Any]:
    """Return what Kafka's classes answer, from one Java machine."""
    done = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{LIBS}/*", PROGRAM],
        input="".join(json.dumps(case) + "\n" for case in cases),
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def stored() -> list[tuple[Case, Any]]:
    with STORED.open(encoding="utf-8") as lines:
        return [(each["case"], each["result"]) for each in map(json.loads, lines)]


@pytest.mark.parametrize("kind", ["assign", "configure", "order"])
def test_our_results_are_those_that_kafka_had(kind):
    cases = [each for each in stored() if each[0]["kind"] == kind]
    assert len(cases) == STORED_OF_A_KIND
    for case, result in cases:
        assert our_result(case) == result, case


class TestWithKafka:
    """One Java machine answers the cases of a test."""

    pytestmark = needs_kafka

    def test_the_stored_results_are_kafkas(self):
        cases, results = zip(*stored(), strict=True)
        assert results_of_kafka(list(cases)) == list(results)

    @pytest.mark.parametrize(
        "make", [assign_case, configure_case, order_case], ids=["assign", "configure", "order"]
    )
    def test_our_results_are_kafkas(self, make):
        cases = [make(seed) for seed in range(1_000, 1_500)]
        for case, result in zip(cases, results_of_kafka(cases), strict=True):
            assert our_result(case) == result, case

    def test_our_results_for_large_groups_are_kafkas(self):
        cases = [assign_case(seed, size=15) for seed in range(20)]
        assert max(len(case["members"]) for case in cases) > 250
        for case, result in zip(cases, results_of_kafka(cases), strict=True):
            assert our_result(case) == result, len(case["members"])


def store() -> None:
    """Write the stored cases, with Kafka's results."""
    cases = [
        make(seed) for make in (assign_case, configure_case, order_case) for seed in range(STORED_OF_A_KIND)
    ]
    lines = []
    for case, result in zip(cases, results_of_kafka(cases), strict=True):
        line = {"case": case, "result": result}
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    STORED.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    store()
