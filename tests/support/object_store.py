"""A service with S3's interface on this machine, and whether it answers is up to the test."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

REGION: Final = "us-east-1"
BUCKET: Final = "weir"

FORBIDDEN: Final = (
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'
)


@dataclass(slots=True)
class ObjectStore:
    """The service's URL. While `refuses`, it answers 403 to everything; `refused_puts` counts the puts that
    found their object there (412).
    """

    url: str
    refuses: bool = False
    refused_puts: int = 0
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environment = {
            "AWS_ACCESS_KEY_ID": "weir",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }

    def warehouse(self, name: str) -> str:
        return f"s3a://{BUCKET}/{name}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Serve an empty bucket until the block ends."""
    # moto keeps keys of the machine's real accounts away from its own.
    pytest.importorskip("moto", reason="moto is not installed: make .venv/dev")
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any, **__: Any) -> None:
            """Spark sends thousands of requests."""

    app = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()
    store: ObjectStore

    def serve(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if store.refuses:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [FORBIDDEN]

        def counted(status: str, *rest: Any) -> Any:
            if status.startswith(str(int(HTTPStatus.PRECONDITION_FAILED))):
                store.refused_puts += 1
            return start(status, *rest)

        # S3 decides about a conditional put in one step; moto looks first and writes afterwards.
        with turn:
            return app(environ, counted)

    server = make_server("127.0.0.1", 0, serve, threaded=True, request_handler=Quiet)
    store = ObjectStore(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        urlopen(Request(f"{store.url}/{BUCKET}", method="PUT")).close()
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store whose address and keys are in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with object_store() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        yield store
