"""Load by Kafka's own kafka-producer-perf-test and kafka-consumer-perf-test: 1 kB records, their defaults.

Run by benchmarks.loads in a process of its own: `python -m benchmarks.java_client java_produce PORT TOPIC N`,
or java_fetch. Prints one line of JSON. The time of a fetch is the tool's fetch.time.ms, without the wait for
the group.
"""

import json
import re
import subprocess
import sys
from typing import Any, Final

from benchmarks.install import KAFKA_LIBS

RECORD_BYTES: Final = 1000
JVM: Final = ("java", "-Xmx512M", "-cp", f"{KAFKA_LIBS}/*")  # bin/kafka-producer-perf-test.sh has this heap
PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
LIMIT_S: Final = 60


def produced_records_per_second(output: str) -> float:
    """Return the rate of the tool's last line, that of all records."""
    rates = re.findall(r"records sent, ([\d.]+) records/sec", output)
    if not rates:
        raise ValueError(f"no rate in {output[-500:]!r}")
    return float(rates[-1])


def fetched_records_per_second(output: str) -> float:
    """Return the column fetch.nMsg.sec, which fetch.MB.sec follows from."""
    table = output[max(output.find("start.time"), 0) :].splitlines()[:2]
    if len(table) < 2:
        raise ValueError(f"no table in {output[-500:]!r}")
    head, row = ([field.strip() for field in line.split(",")] for line in table)
    return float(row[head.index("fetch.nMsg.sec")])


def _run(*arguments: str) -> str:
    done = subprocess.run([*JVM, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{arguments[0]}: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout


def produce(port: int, topic: str, records: int) -> float:
    """Return the records a second."""
    size = ("--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    to = ("--topic", topic, "--producer-props", f"bootstrap.servers=127.0.0.1:{port}")
    return produced_records_per_second(_run(PRODUCER, *to, *size))


def fetch(port: int, topic: str, records: int) -> float:
    """Return the records a second."""
    what = ("--topic", topic, "--messages", str(records))
    return fetched_records_per_second(_run(CONSUMER, "--bootstrap-server", f"127.0.0.1:{port}", *what))


def main() -> None:
    what, port, topic, records = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    rate = {"java_produce": produce, "java_fetch": fetch}[what](port, topic, records)
    result: dict[str, Any] = {
        "ask": what,
        "connections": 1,
        "seconds": round(records / rate, 3),
        "requests": records,
        "answered": records,
        "megabytes_per_second": round(rate * RECORD_BYTES / 1e6, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
