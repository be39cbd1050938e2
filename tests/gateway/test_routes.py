"""The routes of a listener: clients that send any version of any API do not fill the memory."""

import pytest

from broker.api.registry import Registry
from broker.common.errors import ProtocolViolation
from broker.gateway.routes import LAST_KEY, LAST_VERSION, MAX_OTHERS, ForwardRoute, ForwardRoutes
from broker.network.requests.request_metrics import AllMetrics
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions


def built(routes: ForwardRoutes, key: int, version: int) -> ForwardRoute:
    """Return the route as `client_receive` finds it."""
    head = key << 16 | version
    return routes.get(head) or routes.build(head)


def test_a_route_is_kept_with_the_metrics_of_its_version_up_to_the_last_one() -> None:
    metrics = AllMetrics()
    routes = ForwardRoutes(Registry(), metrics.of, forwards_logins=True)
    for key, version in (
        (ApiKey.LIST_OFFSETS, LAST_VERSION - 1),
        (ApiKey.LIST_OFFSETS, LAST_VERSION),
        (ApiKey.LIST_OFFSETS, LAST_VERSION + 1),
        (ApiKey.LIST_OFFSETS, 0x7FFF),
        (LAST_KEY - 1, 0),
        (LAST_KEY, LAST_VERSION),
        (LAST_KEY + 1, 0),
        (0x7FFF, 0x7FFF),
    ):
        route = built(routes, key, version)
        assert (route.api_key, route.version) == (key, version)
        assert built(routes, key, version) is route
        assert route.metrics.version == min(version, LAST_VERSION)
    routes.renew_metrics()
    versions = {name: {part.version for part in api.parts} for name, api in metrics.by_name.items()}
    assert versions == {"ListOffsets": {LAST_VERSION - 1, LAST_VERSION}, "Unknown": {0, LAST_VERSION}}


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_of_the_others_some_are_kept_and_the_oldest_makes_room(over: int) -> None:
    routes = ForwardRoutes(Registry(), AllMetrics().of, forwards_logins=True)
    usual = built(routes, LAST_KEY, LAST_VERSION)
    first = built(routes, ApiKey.API_VERSIONS, LAST_VERSION + 1)
    for number in range(MAX_OTHERS - 1 + over):
        built(routes, LAST_KEY + 1, number)
    assert (built(routes, ApiKey.API_VERSIONS, LAST_VERSION + 1) is first) is (over <= 0)
    assert built(routes, LAST_KEY, LAST_VERSION) is usual


def test_a_client_that_sends_every_version_keeps_no_more() -> None:
    routes = ForwardRoutes(Registry(), AllMetrics().of, forwards_logins=True)
    heads = [ApiKey.API_VERSIONS << 16 | version for version in range(1_000)]
    for head in heads:
        routes.build(head)
    kept = [head for head in heads if routes.get(head) is not None]
    assert kept == heads[: LAST_VERSION + 1] + heads[-MAX_OTHERS:]


def test_a_version_that_is_not_served_is_judged_each_time() -> None:
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
