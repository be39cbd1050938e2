"""A token server and key server over HTTP on loopback, for real clients."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.support.token_issuer import key_set, token

KEYS: Final = "/keys"
TOKENS: Final = "/tokens"


class OAuthServer:
    """`life_s` is the life of the tokens that it issues, `sub` their user. `issued` counts them, `keys_read`
    the requests for keys.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.sub = "ann"
        self.life_s = 300
        self.issued = 0
        self.keys = key_set()
        self.keys_read = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def token(self, **changes: Any) -> str:
        self.issued += 1
        now = time.time()
        return token(now, **{"sub": self.sub, "exp": now + self.life_s, **changes})


@contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    """Serve keys and tokens until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.keys_read += 1
            self._answer(served.keys)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = {"access_token": served.token(), "token_type": "Bearer", "expires_in": served.life_s}
            self._answer(json.dumps(answer).encode())

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = OAuthServer(server.server_port)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
