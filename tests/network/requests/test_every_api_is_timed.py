"""The request quota applies to every served API, each with a client of its own.

The broker's clock advances only by the millisecond that the test adds to every handler. Under 0.01 percent, a
tenth of a millisecond per second, ten windows admit one request and throttle the second.
"""

from pathlib import Path
from typing import Any, Final

import pytest
from trio.testing import MockClock

from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest
from broker.protocol.schema import Message
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker

BEFORE_LOGIN: Final = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""Out of place on a listener without SASL: their answer is an error, and closes the connection."""


def asked_of(broker: RunningBroker, client_id: str, key: ApiKey) -> tuple[Message, int]:
    """Return a request that is answered at once, possibly with an error, and its version."""
    if key is ApiKey.PRODUCE:
        return produce_request_of(500, client_id), PRODUCE_VERSION
    entry = broker.server.registry.get(key)
    assert entry is not None
    message: Any = codec.request_class(key)()
    if isinstance(message, FetchRequest):
        message.max_wait_ms, message.session_epoch = 0, -1
    return message, entry.max_version


def make_every_handler_take_a_millisecond(broker: RunningBroker, clock: MockClock) -> None:
    routes = broker.server.socket_server.listeners[0].routes
    for entry in broker.server.registry:
        for version in range(entry.min_version, entry.max_version + 1):
            code = entry.key << 16 | version
            route = routes.get(code) or routes.build(code)
            assert route is not None

            def slow(message: Any, context: Any, of: Any, handle: Any = route.handle) -> Any:
                if context.client_id.startswith("client-"):
                    clock.jump(0.001)
                return handle(message, context, of)

            route.handle, route.fast_path = slow, None


async def throttles(broker: RunningBroker, key: ApiKey, times: int) -> list[int]:
    """What a client that uses this API alone is told, in ms; what has no field for it shows in its mute."""
    client_id = f"client-{key.name}"
    message, version = asked_of(broker, client_id, key)
    client = await broker.connect(client_id)
    reported = []
    for _ in range(times):
        broker.server.socket_server.listeners[0].routes.clear_caches()  # a handler answers each request
        answer = await client.ask(message, version)
        throttle_times = [
            row.throttle_ms for row in broker.server.views.quotas.throttled() if row.client_id == client_id
        ]
        reported.append(getattr(answer, "throttle_time_ms", sum(throttle_times)))
        assert bool(throttle_times) == bool(reported[-1]), key.name
    return reported


@pytest.mark.parametrize(("percent", "expected"), [(0.01, [0, 10_000]), (2_000.0, [0, 0])])
async def test_every_api_is_held_by_its_clients_request_quota_and_by_no_other(
    tmp_path: Path, mock_clock: MockClock, percent: float, expected: list[int]
) -> None:
    async with running_broker(tmp_path) as broker:
        maker = await broker.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        rule = QuotaAlteration((("client-id", None),), (QuotaOp("request_percentage", percent),))
        await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        make_every_handler_take_a_millisecond(broker, mock_clock)
        keys = {entry.key for entry in broker.server.registry} - BEFORE_LOGIN
        assert len(keys) > 30
        throttled = {key.name: await throttles(broker, key, 2) for key in sorted(keys)}
        assert throttled == {key.name: pytest.approx(expected, abs=1) for key in keys}
