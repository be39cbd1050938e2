"""A broker in a container, as its operator and its clients reach it: through ports published on loopback."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer

from tests.image.containers import HARDENED, Container, Engine
from tests.support.kafka_tools import free_port

DATA: Final = "/var/lib/weir"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: str


@dataclass(frozen=True)
class BrokerContainer:
    container: Container
    kafka_port: int
    console_port: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka_port}"

    @property
    def console_name(self) -> str:
        return f"weir-{self.console_port}.localhost:{self.console_port}"

    def get(self, path: str, **headers: str) -> Answer:
        """Ask the console by its own name, as a browser does; redirects are not followed."""
        names = {"Host": self.console_name} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = urllib.request.Request(f"http://127.0.0.1:{self.console_port}{path}", headers=names)
        try:
            with _OPENER.open(request, timeout=10) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.headers, refused.read().decode())

    def create(self, topic: str, token: str) -> None:
        """Create a topic as the administrator, which clients of the published port may not."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.console_port}/api/v1/topics",
            json.dumps({"name": topic, "partitions": 1}).encode(),
            {
                "Host": self.console_name,
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
            },
        )
        with _OPENER.open(request, timeout=10) as answer:
            assert answer.status == 201

    def produce(self, topic: str, value: bytes, **settings: str) -> None:
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", **_dotted(settings)})
        producer.produce(
            topic, value, on_delivery=lambda error, _message: failures.append(error) if error else None
        )
        assert producer.flush(20) == 0 and failures == [], failures

    def consume(self, topic: str) -> bytes:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "image-test", "auto.offset.reset": "earliest"}
        )
        try:
            consumer.subscribe([topic])
            message = consumer.poll(20)
            assert message is not None, "no record came"
            if (error := message.error()) is not None:
                raise KafkaException(error)
            value = message.value()
            assert isinstance(value, bytes)
            return value
        finally:
            consumer.close()


@contextmanager
def serving(
    engine: Engine,
    image: str,
    volume: str,
    *arguments: str,
    protocol: str = "PLAINTEXT",
    options: tuple[str, ...] = (),
) -> Iterator[BrokerContainer]:
    """A healthy broker that can write nowhere but to the volume; its ports are published on loopback."""
    kafka_port, console_port = free_port(), free_port()
    published = (f"--publish=127.0.0.1:{kafka_port}:9092", f"--publish=127.0.0.1:{console_port}:8080")
    with engine.started(
        image,
        f"--override=advertised.listeners={protocol}://127.0.0.1:{kafka_port}",
        f"--override=console.public.url=http://weir-{console_port}.localhost:{console_port}",
        *arguments,
        options=(*HARDENED, *published, f"--volume={volume}:{DATA}", *options),
    ) as container:
        container.await_health()
        yield BrokerContainer(container, kafka_port, console_port)


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
