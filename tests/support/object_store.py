"""A service with S3's interface on this machine, in a process of its own.

Readers in the tests' process may hold Python's lock while they wait for an answer. The tests control the
service by requests to `CONTROL`, which is no bucket.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

REGION: Final = "us-east-1"
BUCKET: Final = "weir"
CONTROL: Final = "/-/"
REFUSE, ACCEPT, REFUSED_PUTS, COMMITS = "refuse", "accept", "refused-puts", "commits"

FORBIDDEN: Final = (
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
)


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A service at this URL."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "weir",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }

    def warehouse(self, name: str) -> str:
        return f"s3a://{BUCKET}/{name}"

    def put(self, key: str, content: bytes) -> None:
        head = {"Content-Type": "application/octet-stream"}
        self._ask(f"/{BUCKET}/{key}".replace("=", "%3D"), content, head, method="PUT")

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Let it answer 403 to everything while the block runs."""
        self._ask(CONTROL + REFUSE)
        try:
            yield
        finally:
            self._ask(CONTROL + ACCEPT)

    def refused_puts(self) -> int:
        """Return how many puts found that their object existed (412)."""
        return int(self._ask(CONTROL + REFUSED_PUTS))

    def commits(self) -> int:
        """Return how many commits of Delta tables it has taken since its start."""
        return int(self._ask(CONTROL + COMMITS))

    def _ask(self, path: str, *body: Any, **how: Any) -> bytes:
        with urlopen(Request(self.url + path, *body, **how), timeout=30) as answer:
            content: bytes = answer.read()
            return content


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Serve an empty bucket until the block ends."""
    pytest.importorskip("moto", reason="moto is not installed: make .venv/dev")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.object_store"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            store = ObjectStore(f"http://127.0.0.1:{int(process.stdout.readline())}")
            store._ask(f"/{BUCKET}", method="PUT")
            yield store
        finally:
            process.kill()


@pytest.fixture(scope="module")
def aws() -> Iterator[ObjectStore]:
    """An object store whose address and keys are in the environment, for all tests of a file."""
    with object_store() as store, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store


def serve() -> None:
    """Print the port, and serve until killed."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class KeepAlive(WSGIRequestHandler):
        # S3A waits a second for the "100 Continue" that an older protocol has not.
        protocol_version = "HTTP/1.1"

    def is_commit(path: str) -> bool:
        return "/_delta_log/" in path and path.endswith(".json")

    app = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()
    refuses = False
    counts = {REFUSED_PUTS: 0, COMMITS: 0}

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        nonlocal refuses
        # The whole body first: a slow client must not keep others out, nor its connection have a rest of it.
        size = environ.get("CONTENT_LENGTH") or 0
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(size)))
        path = environ["PATH_INFO"]
        if path.startswith(CONTROL):
            refuses = (refuses or path.endswith(REFUSE)) and not path.endswith(ACCEPT)
            content = str(counts.get(path.removeprefix(CONTROL), 0)).encode()
            start("200 OK", [("Content-Length", str(len(content)))])
            return [content]
        if refuses:
            start(
                "403 Forbidden",
                [("Content-Type", "application/xml"), ("Content-Length", str(len(FORBIDDEN)))],
            )
            return [FORBIDDEN]

        def counted(status: str, *rest: Any) -> Any:
            if environ["REQUEST_METHOD"] == "PUT":
                counts[REFUSED_PUTS] += status.startswith("412")
                counts[COMMITS] += status.startswith("200") and is_commit(path)
            return start(status, *rest)

        # S3 decides about a conditional put in one step; moto looks first and writes afterwards.
        with turn:
            return app(environ, counted)

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=KeepAlive)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
