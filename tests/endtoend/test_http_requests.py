"""Requests to a provider over TLS: whose certificates are trusted."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from broker.common.http_requests import HttpRequest, fetch_over_http
from tests.support.certificates import certificates

pytestmark = pytest.mark.endtoend


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates().server.store)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/keys"
        server.shutdown()
        thread.join()


async def test_a_provider_of_an_authority_in_ssl_cert_file_is_trusted(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates().authority.certificate))
    assert await fetch_over_http(HttpRequest(url)) == (200, b"{}")


async def test_a_provider_of_an_unknown_authority_is_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        await fetch_over_http(HttpRequest(url))
