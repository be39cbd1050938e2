"""The routes of a listener: clients that send any version of any API do not fill the memory."""

import pytest

from broker.api.registry import Registry
from broker.common.errors import ProtocolViolation
from broker.gateway.routes import LAST_KEY, LAST_VERSION, ForwardRoutes
from broker.network.requests.request_metrics import AllMetrics
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions


def test_a_route_is_kept_up_to_the_last_key_and_version() -> None:
    metrics = AllMetrics()
    routes = ForwardRoutes(Registry(), metrics.of, forwards_logins=True)
    for key, version, is_kept in (
        (ApiKey.LIST_OFFSETS, LAST_VERSION - 1, True),
        (ApiKey.LIST_OFFSETS, LAST_VERSION, True),
        (ApiKey.LIST_OFFSETS, LAST_VERSION + 1, False),
        (ApiKey.LIST_OFFSETS, 0x7FFF, False),
        (LAST_KEY - 1, 0, True),
        (LAST_KEY, LAST_VERSION, True),
        (LAST_KEY + 1, 0, False),
        (0x7FFF, 0x7FFF, False),
    ):
        head = key << 16 | version
        route = routes.build(head)
        assert (route.api_key, route.version) == (key, version)
        assert (routes.get(head) is route) is is_kept
        assert route.metrics.version == min(version, LAST_VERSION)
    versions = {name: {part.version for part in api.parts} for name, api in metrics.by_name.items()}
    assert versions == {"ListOffsets": {LAST_VERSION - 1, LAST_VERSION}, "Unknown": {0, LAST_VERSION}}


def test_a_version_that_is_not_kept_is_judged_each_time() -> None:
    routes = ForwardRoutes(Registry(), AllMetrics().of, forwards_logins=False)
    for _ in range(2):
        with pytest.raises(ProtocolViolation):
            routes.build(ApiKey.LIST_OFFSETS << 16 | LAST_VERSION + 1)


def test_every_known_version_has_a_route_that_is_kept() -> None:
    assert max(ApiKey) <= LAST_KEY
    assert max(known_versions(key)[1] for key in ApiKey if _is_known(key)) <= LAST_VERSION


def _is_known(key: ApiKey) -> bool:
    try:
        known_versions(key)
    except ProtocolViolation:
        return False
    return True
