"""Pushes reach a collector in batches despite its failures; on a mock clock, with a real socket."""

import ssl
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import trio
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from trio.testing import MockClock

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.monitoring.otlp.export import CollectorResponse, OtlpExporter, http_sender, retry_ms
from broker.telemetry.otlp import for_collector
from broker.telemetry.state import ExportQueue, Push
from tests.support.certificates import certificates
from tests.telemetry.scene import Scene, client, gauge, metrics

OK = CollectorResponse(200, "OK")


class Collector:
    """Responds as configured, then with OK; records the time of each request."""

    def __init__(self, *answers: CollectorResponse) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[float, bytes]] = []

    async def post(self, body: bytes) -> CollectorResponse:
        self.requests.append((trio.current_time(), body))
        await trio.lowlevel.checkpoint()
        return self.answers.pop(0) if self.answers else OK


async def run_for(seconds: float, queue: ExportQueue, collector: Collector) -> None:
    with trio.move_on_after(seconds):
        await OtlpExporter(queue, collector.post).run()


async def test_pushes_are_gathered_for_a_second(autojump_clock: MockClock) -> None:
    queue, collector = ExportQueue(1_000), Collector()
    queue.offer(b"one")
    queue.offer(b"two")
    await run_for(2.5, queue, collector)
    assert collector.requests == [(1.0, b"onetwo")]
    assert (queue.sent, queue.dropped, queue.retries) == (2, 0, 0)


@pytest.mark.parametrize(
    "answer",
    [CollectorResponse(503, "busy"), CollectorResponse(429, "slow down"), CollectorResponse(0, "refused")],
)
async def test_a_collector_that_cannot_now_is_asked_again_with_the_same(
    autojump_clock: MockClock, answer: CollectorResponse
) -> None:
    queue, collector = ExportQueue(1_000), Collector(answer, answer, answer)
    queue.offer(b"one")
    await run_for(20, queue, collector)
    assert collector.requests == [(1.0, b"one"), (2.0, b"one"), (4.0, b"one"), (8.0, b"one")]
    assert (queue.sent, queue.retries) == (1, 3)


async def test_a_collector_may_say_when(autojump_clock: MockClock) -> None:
    queue, collector = ExportQueue(1_000), Collector(CollectorResponse(503, "busy", "5"))
    queue.offer(b"one")
    await run_for(10, queue, collector)
    assert [at for at, _ in collector.requests] == [1.0, 6.0]


async def test_a_batch_that_is_refused_for_good_is_dropped_and_the_next_goes_out(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue, collector = (
        ExportQueue(1_000),
        Collector(CollectorResponse(400, "bad"), CollectorResponse(401, "who are you")),
    )
    for number in range(3):
        queue.offer(b"%d" % number)
        await run_for(1.5, queue, collector)
    assert (queue.dropped, queue.sent) == (2, 1)


async def test_trouble_is_reported_once_and_so_is_its_end(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue, collector = ExportQueue(1_000), Collector(*[CollectorResponse(0, "refused")] * 5)
    queue.offer(b"one")
    await run_for(200, queue, collector)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_the_client_stands_among_the_attributes_of_the_resource() -> None:
    data = MetricsData.FromString(metrics(gauge("a", 1)))
    spoofed = data.resource_metrics[0].resource.attributes.add(key="principal")
    spoofed.value.string_value = "root"
    data.resource_metrics[0].resource.attributes.add(key="client_rack").value.string_value = "r1"
    instance = Scene().join()
    push = Push(instance, client(1, principal="alice"), 0, False, 0, b"", 0)
    data_sent = MetricsData.FromString(for_collector(push, data) + for_collector(push, data))
    assert len(data_sent.resource_metrics) == 2
    for resource in data_sent.resource_metrics:
        attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert attributes == {
            "client_rack": "r1",
            "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAg",
            "client_id": "client-1",
            "client_software_name": "apache-kafka-java",
            "client_software_version": "4.1.0",
            "client_source_address": "10.0.0.1",
            "client_source_port": "50000",
            "principal": "alice",
        }
        assert resource.scope_metrics[0].metrics[0].name == "a"
    assert spoofed.value.string_value == "root"


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).seen.append((self.path, dict(self.headers), body))
        status = {"busy": 503, "moved": 308}.get(self.path.split("/")[1], 200)
        self.send_response(status)
        if status == 308:
            self.send_header("Location", "/v1/metrics")
        self.send_header("Retry-After", "3")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def tls() -> ssl.SSLContext:
    """Makes a collector of TLS of `port`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates().server.store)
    return context


@pytest.fixture
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    Handler.seen = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if "tls" in request.fixturenames:
            context: ssl.SSLContext = request.getfixturevalue("tls")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "expected"), [("", "/v1/metrics"), ("/a/", "/a/v1/metrics"), ("/v1/metrics", "/v1/metrics")]
)
async def test_a_request_is_otlp_over_http(port: int, path: str, expected: str) -> None:
    config = load(
        None,
        [
            f"telemetry.otlp.endpoint=http://127.0.0.1:{port}{path}",
            "telemetry.otlp.headers=X-Key=se=cret,a=b",
        ],
        {},
    ).config.telemetry
    assert await http_sender(config)(b"body" * 100) == CollectorResponse(200, "OK", "3")
    ((got, headers, body),) = Handler.seen
    assert (got, zlib.decompress(body, wbits=31)) == (expected, b"body" * 100)
    assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/x-protobuf", "gzip")
    assert (headers["X-Key"], headers["a"]) == ("se=cret", "b")


async def test_transport_errors_are_answers_too(port: int) -> None:
    busy = load(None, [f"telemetry.otlp.endpoint=http://127.0.0.1:{port}/busy"], {}).config.telemetry
    assert (await http_sender(busy)(b""))[::2] == (503, "3")
    unreachable = load(None, ["telemetry.otlp.endpoint=http://127.0.0.1:1"], {}).config.telemetry
    answer = await http_sender(unreachable)(b"")
    assert answer.status == 0 and "ConnectionRefusedError" in answer.reason


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_the_certificate_of_a_collector_is_verified(
    port: int, monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext, is_trusted: bool
) -> None:
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates().authority.certificate))
    config = load(None, [f"telemetry.otlp.endpoint=https://localhost:{port}"], {}).config.telemetry
    answer = await http_sender(config)(b"body")
    if is_trusted:
        assert answer == CollectorResponse(200, "OK", "3")
    else:
        assert answer.status == 0 and "CERTIFICATE_VERIFY_FAILED" in answer.reason


async def test_neither_proxies_nor_passwords_are_used(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    config = load(None, [f"telemetry.otlp.endpoint=http://u:p@127.0.0.1:{port}"], {}).config.telemetry
    assert (await http_sender(config)(b"body")).status == 200
    ((_, headers, _),) = Handler.seen
    assert "Authorization" not in headers


async def test_a_redirect_is_not_followed(port: int) -> None:
    config = load(None, [f"telemetry.otlp.endpoint=http://127.0.0.1:{port}/moved"], {}).config.telemetry
    assert (await http_sender(config)(b"body")).status == 308
    assert len(Handler.seen) == 1


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "RemoteProtocolError"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "RemoteProtocolError"),
        (None, "ReadTimeout: no response within 0.2 s"),
    ],
)
async def test_a_collector_that_does_not_speak_http_is_an_answer_too(
    response: bytes | None, reason: str
) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            if response is None:
                await trio.sleep_forever()
            else:
                await stream.send_all(response)
                await stream.send_eof()
                async for _ in stream:
                    pass

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        settings = [f"telemetry.otlp.endpoint=http://127.0.0.1:{port}", "telemetry.otlp.timeout.ms=200"]
        answer = await http_sender(load(None, settings, {}).config.telemetry)(b"body")
        assert answer.status == 0 and answer.reason.startswith(reason)
        nursery.cancel_scope.cancel()


def test_a_broker_without_a_collector_does_not_import_httpx2() -> None:
    output = subprocess.run(
        [sys.executable, "-c", "import sys, broker.server.app; print('httpx2' in sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert output.stdout == "False\n"


@pytest.mark.parametrize(
    ("attempt", "retry_after", "wait_ms"),
    [
        (1, None, 1_000),
        (2, None, 2_000),
        (5, None, 16_000),
        (6, None, 30_000),
        (10_000, None, 30_000),
        (1, "7", 7_000),
        (9, "0", 0),
        (1, "31", 30_000),
        (1, "9" * 5_000, 30_000),
        (2, "Fri, 31 Dec 1999 23:59:59 GMT", 2_000),
        (2, "²", 2_000),
    ],
)
def test_waits_double_up_to_a_bound_unless_the_collector_says_when(
    attempt: int, retry_after: str | None, wait_ms: int
) -> None:
    assert retry_ms(attempt, retry_after) == wait_ms


@pytest.mark.parametrize(
    "setting",
    [
        "telemetry.otlp.endpoint=127.0.0.1:4318",
        "telemetry.otlp.endpoint=ftp://x",
        "telemetry.otlp.endpoint=http://",
        "telemetry.otlp.endpoint=http://x:99999",
        "telemetry.otlp.endpoint=http://x?y",
    ],
)
def test_an_endpoint_or_header_that_is_none_stops_the_start(setting: str) -> None:
    with pytest.raises(ConfigError):
        load(None, [setting], {})


@pytest.mark.parametrize(
    "headers",
    [
        "no",
        "=x",
        "a b=c",
        "a:=c",
        "a/b=c",
        "\x7f=c",
        "ä=c",
        "a=b,c d=e",
        "Content-Length=5",
        "transfer-encoding=chunked",
        "a=日本",
        "a=\u0100",
        "a=b\rc",
        "a=b\x7fc",
        "a=b\x9fc",
    ],
)
def test_headers_that_http_cannot_carry_stop_the_start(headers: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [f"telemetry.otlp.headers={headers}"], {})
    assert caught.value.key == "telemetry.otlp.headers"
    assert "a name has ASCII letters, digits and !#$%&'*+-.^_`|~" in str(caught.value)


async def test_headers_of_every_allowed_character_are_carried(port: int) -> None:
    names = "".join(map(chr, range(33, 127)))
    token = "".join(each for each in names if each not in '"(),/:;<=>?@[\\]{}')
    value = "".join(each for each in map(chr, range(33, 256)) if each.isprintable() and each not in ",")
    settings = [
        f"telemetry.otlp.endpoint=http://127.0.0.1:{port}",
        f"telemetry.otlp.headers={token}={value}",
    ]
    assert (await http_sender(load(None, settings, {}).config.telemetry)(b"body")).status == 200
    ((_path, seen, _body),) = Handler.seen
    assert seen[token] == value
