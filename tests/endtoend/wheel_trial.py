"""Tries an installed wheel: `python -P wheel_trial.py [compiled]`. Without -P, files beside this one hide
modules of the standard library.

Needs kafka-python, and kcat if it is there. It ends with the failed assertion, or with one line. The release
workflow and cibuildwheel run it for each wheel.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

import weir
from weir.testing import Broker

TOPIC = "greetings"
SENT = [b"record %d" % number for number in range(10)]
INTERPRETED = "interpreted: installed without compiled modules"
CALLBACK = """
import weir

class OneForAll(weir.QuotaCallback):
    def configure(self, configs): ...
    def quota_metric_tags(self, kind, principal, client_id): return {"shared": "by all"}
    def quota_limit(self, kind, metric_tags): return 12_345.0
    def update_quota(self, kind, entity, new_value): ...
    def remove_quota(self, kind, entity): ...
    def quota_reset_required(self, kind): return False
    def update_cluster_metadata(self, cluster): return False
    def close(self): ...
"""


def main(kind: str) -> None:
    says = output("--version")
    assert says == f"weir, version {weir.__version__}, {kind}\n", says
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one_for_all.py").write_text(CALLBACK, encoding="utf-8")
        os.environ["PYTHONPATH"] = folder
        callback = "one_for_all:OneForAll"
        with Broker({"client.quota.callback.class": callback}) as broker:
            broker.create_topic(TOPIC)
            send_and_receive(broker.bootstrap_servers)
            console = {"WEIR_CONSOLE": broker.console_url, "WEIR_TOKEN": broker.token}
            explained = output("quotas", "resolve", "--user", "alice", **console)
            assert "producer_byte_rate: 12.345 kB/s" in explained, explained
            assert f"the callback {callback} returns shared=by all" in explained, explained
            broker.restart()
            assert [record.value for record in broker.records(TOPIC)] == SENT
    print(f"{says.strip()}: {len(SENT)} records sent and received, a callback asked")


def send_and_receive(address: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address)
    for value in SENT:
        producer.send(TOPIC, value)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    assert [next(consumer).value for _ in SENT] == SENT
    consumer.close()
    if kcat := shutil.which("kcat"):
        command = (kcat, "-b", address, "-t", TOPIC, "-C", "-e", "-q")
        done = subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert done.stdout.splitlines() == SENT, done


def output(*arguments: str, **environment: str) -> str:
    command = Path(sysconfig.get_path("scripts"), "weir")
    done = subprocess.run(
        (command, *arguments), check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    return done.stdout


if __name__ == "__main__":
    main("compiled" if "compiled" in sys.argv[1:] else INTERPRETED)
