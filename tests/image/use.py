"""Uses a built image as an operator would; every claim is checked, the first that does not hold ends it.

Run by tests/image/run as `python -m tests.image.use CONTAINER IMAGE`: as root, in its own network namespace.
The command, the user and the health check are the image's own: what is tested is what `docker run` would do.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BOOTSTRAP: Final = "127.0.0.1:9092"
CONSOLE: Final = "http://127.0.0.1:8080"
TOKEN: Final = "a-token-of-the-image-test-0123456789abcdef"
TOPIC: Final = "greetings"
HEALTHY_WITHIN_S: Final = 20.0
DRAINED_WITHIN_S: Final = 20.0
DATA: Final = "/var/lib/weir"


@dataclass(frozen=True)
class Image:
    """What the image says of itself; the health check is in the image format that Docker has."""

    command: list[str]
    health_check: list[str]
    user: str
    volumes: list[str]

    @classmethod
    def inspect(cls, name: str) -> "Image":
        printed = subprocess.run(
            ["buildah", "inspect", "--type", "image", name], check=True, capture_output=True, text=True
        )
        config: dict[str, Any] = json.loads(printed.stdout)["Docker"]["config"]
        return cls(
            command=[*config["Entrypoint"], *(config.get("Cmd") or [])],
            health_check=config["Healthcheck"]["Test"][1:],
            user=config["User"],
            volumes=list(config["Volumes"]),
        )


def _in_container(container: str, mounts: list[str], command: list[str], *environment: str) -> list[str]:
    options = [f"--volume={mount}" for mount in mounts] + [f"--env={pair}" for pair in environment]
    return ["buildah", "run", "--isolation=chroot", "--network=host", *options, container, "--", *command]


@contextlib.contextmanager
def _serving(container: str, image: Image, mounts: list[str], output: Path) -> Iterator[None]:
    """The image's own command until the block ends; it must then drain and exit with status 0."""
    environment = "WEIR_ADMIN_TOKEN_FILE=/run/secrets/weir-token"
    command = _in_container(container, mounts, image.command, environment)
    with output.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
    try:
        _await_health(container, image, mounts, process)
        yield
        _signal_broker(signal.SIGTERM)
        status = process.wait(DRAINED_WITHIN_S)
        assert status == 0, f"exit status {status} after SIGTERM"
    except BaseException:
        print(output.read_text(encoding="utf-8", errors="replace")[-4000:], file=sys.stderr)
        raise
    finally:
        if process.poll() is None:
            _signal_broker(signal.SIGKILL)
            process.kill()
            process.wait()


def _broker_pids() -> list[int]:
    """The processes of this network namespace that run `weir serve`: there is no other broker in it."""
    own = Path("/proc/self/ns/net").readlink()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_weir = words[0].endswith(b"/python3") and words[1].endswith(b"/weir")
            if is_weir and (process / "ns/net").readlink() == own:
                found.append(int(process.name))
    return found


def _signal_broker(number: signal.Signals) -> None:
    for pid in _broker_pids():
        subprocess.run(["kill", f"-{int(number)}", str(pid)], check=False)


def _await_health(container: str, image: Image, mounts: list[str], process: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    while subprocess.run(
        _in_container(container, mounts, image.health_check), capture_output=True
    ).returncode:
        assert process.poll() is None, f"the broker ended with status {process.returncode}"
        assert time.monotonic() - started < HEALTHY_WITHIN_S, "the health check never passed"
        time.sleep(0.2)
    print(f"healthy after {time.monotonic() - started:.1f} s")


def _runs_as(user: str) -> None:
    (pid,) = _broker_pids()
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (uids,) = (line.split()[1:] for line in status.splitlines() if line.startswith("Uid:"))
    assert set(uids) == {user.partition(":")[0]}, f"runs as {uids}"
    assert set(uids) != {"0"}
    print(f"runs as user {uids[0]}")


def _clients_do_not_administer() -> None:
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    refusal = admin.create_topics([NewTopic("refused", 1, 1)])["refused"].exception(10)
    assert isinstance(refusal, KafkaException), "a client of the published port made a topic"
    assert refusal.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, refusal


def _produce(value: bytes) -> None:
    """The topic is made by the first record."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all"})
    producer.produce(
        TOPIC, value, on_delivery=lambda error, _message: failures.append(error) if error else None
    )
    assert producer.flush(10) == 0 and failures == [], failures


def _consume() -> bytes:
    consumer = Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": "image-test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    message = consumer.poll(20)
    assert message is not None, "no record came"
    if (error := message.error()) is not None:
        raise KafkaException(error)
    consumer.close()
    value = message.value()
    assert isinstance(value, bytes)
    return value


def _status(path: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{CONSOLE}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def main() -> None:
    container, image = sys.argv[1], Image.inspect(sys.argv[2])
    assert image.volumes == [DATA]
    with tempfile.TemporaryDirectory() as scratch:
        secret = Path(scratch, "token")
        secret.write_text(TOKEN + "\n", encoding="ascii")
        data = Path(scratch, "data")
        data.mkdir()
        for path in (secret, data):
            subprocess.run(["chown", image.user, str(path)], check=True)
        mounts = [f"{secret}:/run/secrets/weir-token:ro", f"{data}:{DATA}"]
        Path(scratch).chmod(0o755)
        output = Path(scratch, "output")
        with _serving(container, image, mounts, output):
            _runs_as(image.user)
            assert _status("/api/v1/overview", None) == 401
            assert _status("/api/v1/overview", TOKEN) == 200
            _clients_do_not_administer()
            _produce(b"hello from the image test")
        with _serving(container, image, mounts, output):
            assert _consume() == b"hello from the image test"
    print("a record was kept over a restart; 1 passed, 0 failed")


if __name__ == "__main__":
    main()
