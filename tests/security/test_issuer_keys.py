"""The key set of a token issuer: where it is, what a bad file says, and when it is read again."""

from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.load import build_config
from broker.security.issuer_keys import DEMAND_MS, MAX_BYTES, IssuerKeys, KeySource, RefreshTimes, sources_of
from tests.support.token_issuer import as_json, key_set, rsa_key, write_key_set

URL = "https://id.example/keys"
START_MS = 1_000_000


def source(
    url: str = URL, refresh_ms: int = 60_000, backoff_ms: int = 100, most_ms: int = 1_000
) -> KeySource:
    return KeySource(url, refresh_ms, backoff_ms, most_ms)


def test_listeners_of_one_issuer_share_its_keys() -> None:
    url = "sasl.oauthbearer.jwks.endpoint.url"
    texts = {
        url: URL,
        f"listener.name.a.{url}": URL,
        f"listener.name.b.{url}": "https://other.example/keys",
        "listener.name.c.sasl.oauthbearer.expected.audience": "c",
    }
    found = sources_of(build_config(texts).security)
    assert [each.url for each in found] == [URL, "https://other.example/keys"]
    assert sources_of(build_config({}).security) == []


def test_a_file_is_read_at_once(tmp_path: Path) -> None:
    keys = IssuerKeys(source(write_key_set(tmp_path)))
    assert keys.find("first", "RS256") is not None and keys.find("other", "RS256") is None


def test_a_url_is_not() -> None:
    keys = IssuerKeys(source())
    demands = []
    keys.demand = lambda: demands.append(1)
    assert keys.find("first", "RS256") is None and demands == [1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        (b"", "it is not JSON"),
        (b'{"keys": []}', "it has no public key for signatures"),
        (key_set(as_json(rsa_key()))[:-9], "it is not JSON"),
        (b" " * (MAX_BYTES + 1), f"it has more than {MAX_BYTES} bytes"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "keys.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=why) as stopped:
        IssuerKeys(source(file.as_uri()))
    assert stopped.value.key == "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.parametrize("more", [-1, 0])
def test_a_file_may_have_a_megabyte(tmp_path: Path, more: int) -> None:
    file = tmp_path / "keys.json"
    document = key_set(as_json(rsa_key()))
    file.write_bytes(document + b" " * (MAX_BYTES - len(document) + more))
    assert len(IssuerKeys(source(file.as_uri())).keys) == 1


def test_keys_are_read_again_after_the_refresh_time() -> None:
    times = RefreshTimes(source(), START_MS)
    assert times.next_ms == START_MS
    times.succeeded(START_MS + 5)
    assert times.next_ms == START_MS + 60_005


def test_failures_wait_twice_as_long_each_up_to_a_limit() -> None:
    times = RefreshTimes(source(), START_MS)
    waits = []
    for _ in range(70):
        times.failed(START_MS)
        waits.append(times.next_ms - START_MS)
    assert waits[:5] == [100, 200, 400, 800, 1_000] and set(waits[5:]) == {1_000}
    times.succeeded(START_MS)
    times.failed(START_MS)
    assert times.next_ms == START_MS + 100


def test_the_first_wait_is_not_longer_than_the_longest() -> None:
    times = RefreshTimes(source(backoff_ms=5_000, most_ms=10), START_MS)
    times.failed(START_MS)
    assert times.next_ms == START_MS + 10


def test_an_unknown_key_is_looked_for_at_once_and_then_every_ten_seconds_at_most() -> None:
    times = RefreshTimes(source(), START_MS)
    times.succeeded(START_MS)
    assert times.demanded(START_MS + 1) and times.next_ms == START_MS + 1
    assert not times.demanded(START_MS + 1), "it is about to be read"
    times.succeeded(START_MS + 2)
    assert times.demanded(START_MS + 3) and times.next_ms == START_MS + 1 + DEMAND_MS
    assert not times.demanded(START_MS + 4)
    times.succeeded(START_MS + 1 + DEMAND_MS)
    assert times.demanded(START_MS + 2 * DEMAND_MS) and times.next_ms == START_MS + 1 + 2 * DEMAND_MS


def test_an_unknown_key_does_not_shorten_the_wait_after_a_failure_nor_delay_a_refresh() -> None:
    times = RefreshTimes(source(refresh_ms=50), START_MS)
    times.failed(START_MS)
    assert not times.demanded(START_MS) and times.next_ms == START_MS + 100
    times.succeeded(START_MS + 100)
    assert times.demanded(START_MS + 100)
    times.succeeded(START_MS + 100)
    assert not times.demanded(START_MS + 101) and times.next_ms == START_MS + 150
