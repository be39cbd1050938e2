"""The two settings of what a gateway reads of its cluster: their ranges."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load

AGE = "gateway.upstream.views.max.age.ms"
RATE = "gateway.upstream.views.requests.per.second"


def test_the_defaults() -> None:
    gateway = load(None, [], {}).config.gateway
    assert (gateway.views_max_age_ms, gateway.views_requests_per_second) == (10_000, 20)


@pytest.mark.parametrize(("key", "least"), [(AGE, 1_000), (RATE, 1)])
def test_the_least_values(key: str, least: int) -> None:
    for value in (least, least + 1):
        gateway = load(None, [f"{key}={value}"], {}).config.gateway
        assert value in (gateway.views_max_age_ms, gateway.views_requests_per_second)
    with pytest.raises(ConfigError, match=key):
        load(None, [f"{key}={least - 1}"], {})
