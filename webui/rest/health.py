"""GET /metrics, /healthz and /readyz: plain text for Prometheus and for probes."""

from typing import Final

from webui.problem import Problem
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.tables.slices import collect

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"


async def metrics(call: Call) -> Reply:
    pieces = await collect(call.console.backend.metrics())
    return Reply(b"".join(pieces), media=PROMETHEUS)


async def healthz(call: Call) -> Reply:
    return Reply(b"ok\n", media=PLAIN)


async def readyz(call: Call) -> Reply:
    if not call.console.backend.ready():
        raise Problem(503, "The broker is starting or stopping and does not serve Kafka clients.")
    return Reply(b"ready\n", media=PLAIN)


ROUTES: Final = (
    Route(
        "GET /metrics",
        "getMetrics",
        "All metrics, for Prometheus.",
        metrics,
        {200: ResponseSpec("Prometheus text format 0.0.4", media=PROMETHEUS)},
    ),
    Route(
        "GET /healthz",
        "isAlive",
        "Whether the process runs its event loop.",
        healthz,
        {200: ResponseSpec("It does", media=PLAIN)},
        public=True,
    ),
    Route(
        "GET /readyz",
        "isReady",
        "Whether the broker serves Kafka clients.",
        readyz,
        {200: ResponseSpec("They are", media=PLAIN)},
        public=True,
    ),
)
