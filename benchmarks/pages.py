"""Browsers with one open page each, as the broker sees them: `python -m benchmarks.pages PORT COUNT
SECONDS`; and `--flood`, the equivalent of `wrk -c COUNT`.

Started by benchmarks.console, which passes the token in WEIR_ADMIN_TOKEN. Prints "ready" when every stream
has begun, or every connection of the flood is open, and at the end a line of JSON with the totals. `PAGES`
are Chromium's requests for each page; tests/webui/browser compares it with Chromium.
"""

import json
import os
import sys
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import trio

FIRST_PAGE: Final = {"search": "", "sort": "", "order": "asc", "offset": "0", "limit": "50"}


@dataclass(frozen=True, slots=True)
class PageLoad:
    """The requests of a page: `stream` has the parameters of its live stream, `asks` its REST paths.

    The page requests `asks` when opened, and again every `again_s` seconds unless that is 0.
    """

    path: str
    stream: dict[str, str]
    asks: tuple[str, ...] = ()
    again_s: float = 0.0


def _listing(path: str, topic: str, sort: str, *asks: str) -> PageLoad:
    return PageLoad(path, FIRST_PAGE | {"sort": sort, "topics": f"overview,{topic}"}, asks)


QUOTA_CHANGES: Final = "/api/v1/audit?kind=client-quota&limit=200"
"""Charts mark the changes of quotas."""


PAGES: Final = (
    PageLoad(
        "/",
        {"sort": "used", "order": "desc", "limit": "20", "topics": "overview,throttled,quotas,attention"},
        ("/api/v1/overview?history_s=900", QUOTA_CHANGES),
    ),
    PageLoad(
        "/throttled",
        {"sort": "last", "order": "desc", "limit": "20", "topics": "overview,throttled,recent_throttles"},
        ("/api/v1/overview?history_s=3600", QUOTA_CHANGES),
        30.0,
    ),
    PageLoad("/doctor", {"topics": "overview,doctor"}, ("/api/v1/doctor",)),
    _listing("/quotas", "quotas,unlimited", "entity"),
    _listing("/ip-quotas", "ip-quotas", "address"),
    _listing("/connections", "connections,software", "since"),
    PageLoad(
        "/groups",
        FIRST_PAGE | {"sort": "worst", "order": "desc", "topics": "overview,groups"},
        ("/api/v1/groups:lag?seconds=3600",),
    ),
    _listing("/client-metrics", "client-instances", "client"),
    PageLoad("/topics", FIRST_PAGE | {"sort": "name", "filter": "own", "topics": "overview,topics"}),
    PageLoad("/tasks", {"topics": "overview,tasks"}),
)


class Tally:
    """The totals so far, for `expected` visitors."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self.all_opened = trio.Event()
        self.events = self.bytes = self.answers = self.refused = 0

    def opened(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.all_opened.set()

    def told(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("events", "bytes", "answers", "refused")}


class Connection:
    """A client of HTTP/1.1 over one socket, limited to the console's needs."""

    def __init__(self, port: int, stream: trio.SocketStream) -> None:
        self._host = f"127.0.0.1:{port}"
        self._stream = stream
        self._rest = b""

    async def ask(self, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> None:
        fields = {"Host": self._host, "Content-Length": str(len(body))} | headers
        if not body:
            del fields["Content-Length"]
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self._stream.send_all(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body)

    async def answer(self) -> tuple[int, str, bytes]:
        """Return status, head and body of a response with a length."""
        status, head = await self.head()
        length = next(
            (int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:")), 0
        )
        while len(self._rest) < length:
            await self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return status, head, body

    async def head(self) -> tuple[int, str]:
        while b"\r\n\r\n" not in self._rest:
            await self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode("latin-1")

    async def some(self) -> bytes:
        """Return the next bytes of a response without an end."""
        if not self._rest:
            await self._more()
        some, self._rest = self._rest, b""
        return some

    async def _more(self) -> None:
        data = await self._stream.receive_some(1 << 16)
        if not data:
            raise ConnectionError("the console closed the connection")
        self._rest += data


async def browse(port: int, token: str, page: PageLoad, tally: Tally) -> None:
    """Run one browser: it signs in, loads the page, sends the page's requests, and reads the stream."""
    connection = Connection(port, await trio.open_tcp_stream("127.0.0.1", port))
    sign_in = json.dumps({"token": token}).encode()
    await connection.ask("POST", "/login", {"Content-Type": "application/json"}, sign_in)
    status, head, _ = await connection.answer()
    if status != 200:
        raise ConnectionError(f"the console refused a browser's sign-in: {status}")
    cookie = next(line[11:].strip() for line in head.splitlines() if line.lower().startswith("set-cookie:"))
    headers = {"Cookie": cookie.partition(";")[0]}
    *first, last = (page.path, *page.asks)
    for target in first:
        await connection.ask("GET", target, headers)
        await connection.answer()
    await connection.ask("GET", last, headers | {"Connection": "close"})
    await connection.answer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, port, page, headers, tally)
        if page.again_s:
            nursery.start_soon(_ask_again, port, page, headers)


async def _watch(port: int, page: PageLoad, headers: dict[str, str], tally: Tally) -> None:
    connection = Connection(port, await trio.open_tcp_stream("127.0.0.1", port))
    await connection.ask("GET", f"/api/v1/events?{urlencode(page.stream)}", headers)
    status, _ = await connection.head()
    if status != 200:
        raise ConnectionError(f"the console refused a stream: {status}")
    tally.opened()
    while True:
        some = await connection.some()
        tally.bytes += len(some)
        tally.events += some.count(b"\nevent: ") + some.startswith(b"event: ")


async def _ask_again(port: int, page: PageLoad, headers: dict[str, str]) -> None:
    while True:
        await trio.sleep(page.again_s)
        connection = Connection(port, await trio.open_tcp_stream("127.0.0.1", port))
        for target in page.asks:
            await connection.ask("GET", target, headers | {"Connection": "close"})
            await connection.answer()


async def flood(port: int, token: str, tally: Tally) -> None:
    """Run one connection of a flood, which sends a request after each response."""
    connection = Connection(port, await trio.open_tcp_stream("127.0.0.1", port))
    tally.opened()
    while True:
        await connection.ask("GET", "/api/v1/overview", {"Authorization": f"Bearer {token}"})
        status, _, _ = await connection.answer()
        tally.answers += 1
        tally.refused += status != 200


async def main(port: int, count: int, seconds: float, flooding: bool) -> None:
    token, tally = os.environ["WEIR_ADMIN_TOKEN"], Tally(count)
    async with trio.open_nursery() as nursery:
        for number in range(count):
            if flooding:
                nursery.start_soon(flood, port, token, tally)
            else:
                nursery.start_soon(browse, port, token, PAGES[number % len(PAGES)], tally)
                await trio.sleep(0.02)
        await tally.all_opened.wait()
        print("ready", flush=True)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    print(json.dumps(tally.told()))


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), "--flood" in sys.argv)
