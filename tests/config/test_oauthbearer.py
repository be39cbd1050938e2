"""The settings of access tokens: where keys may be, and what OAUTHBEARER needs."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import build_config, load
from broker.config.sections.security import JWKS_URL, key_file

SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
AUDIENCE, ISSUER = "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"
EXPECTED = {AUDIENCE: "kafka", ISSUER: "https://id.example"}


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("file:///etc/weir/keys.json", "/etc/weir/keys.json"),
        ("file:/etc/keys.json", "/etc/keys.json"),
        ("file://localhost/with%20blank.json", "/with blank.json"),
        ("https://id.example/keys?a=b", None),
        ("https://[2001:db8::1]:8443/keys", None),
        ("http://127.0.0.1:8080/keys", None),
        ("http://[::1]/keys", None),
        ("http://localhost/keys", None),
    ],
)
def test_keys_may_be_in_a_file_behind_tls_or_on_this_machine(url: str, file: str | None) -> None:
    assert build_config({JWKS_URL: url}).security.jwks_endpoint_url == url
    assert key_file(url) == file


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://id.example/keys",
            "http://127.0.0.1.example/keys",
            "http://10.0.0.1/keys",
            "ftp://a/b",
            "keys",
        ),
        *(
            "file://host/keys",
            "file:",
            "file:///",
            "https://",
            "https:///keys",
            "https://a:0/",
            "https://a:x/",
        ),
        *(
            "https://user@id.example/",
            "https://id.example/#keys",
            "https://id .example/",
            "https://ïd.example/",
        ),
    ],
)
def test_keys_may_be_nowhere_else(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_config({JWKS_URL: url})
    assert refused.value.key == JWKS_URL


def test_oauthbearer_needs_keys_on_the_listeners_where_it_is_enabled() -> None:
    with pytest.raises(ConfigError, match="required by OAUTHBEARER on the listener SASL_PLAINTEXT"):
        build_config({**SASL, **EXPECTED})
    build_config({**SASL, **EXPECTED, JWKS_URL: "https://id.example/keys"})
    build_config({**SASL, **EXPECTED, f"listener.name.sasl_plaintext.{JWKS_URL}": "https://id.example/keys"})
    build_config({**SASL, "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN"})
    build_config({**SASL, "listeners": "PLAINTEXT://127.0.0.1:0"})


@pytest.mark.parametrize("prefix", ["", "listener.name.sasl_plaintext."])
@pytest.mark.parametrize("missing", [AUDIENCE, ISSUER])
def test_oauthbearer_needs_an_audience_and_an_issuer_unless_any_is_allowed(missing: str, prefix: str) -> None:
    texts = {**SASL, JWKS_URL: "https://id.example/keys", **EXPECTED}
    value = texts.pop(missing)
    with pytest.raises(ConfigError) as refused:
        build_config(texts)
    assert refused.value.key == missing
    any_allowed = missing.replace("expected", "allow.unverified")
    with pytest.raises(ConfigError):
        build_config({**texts, prefix + any_allowed: "false"})
    build_config({**texts, prefix + any_allowed: "true"})
    build_config({**texts, prefix + missing: value})


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("jwks.endpoint.refresh.ms", 3_600_000),
        ("jwks.endpoint.retry.backoff.ms", 100),
        ("jwks.endpoint.retry.backoff.max.ms", 10_000),
    ],
)
def test_times_are_kafkas_and_at_least_a_millisecond(name: str, default: int) -> None:
    fields = {
        "jwks.endpoint.refresh.ms": "jwks_refresh_ms",
        "jwks.endpoint.retry.backoff.ms": "jwks_backoff_ms",
        "jwks.endpoint.retry.backoff.max.ms": "jwks_backoff_max_ms",
    }
    key = f"sasl.oauthbearer.{name}"
    assert getattr(build_config({}).security, fields[name]) == default
    for value in (1, 2, 2**63 - 1):
        assert getattr(build_config({key: str(value)}).security, fields[name]) == value
    for value in (-1, 0, 2**63):
        with pytest.raises(ConfigError):
            build_config({key: str(value)})


@pytest.mark.parametrize(("value", "is_valid"), [("-1", False), ("0", True), ("1", True)])
def test_the_clock_skew_is_not_negative(value: str, is_valid: bool) -> None:
    key = "sasl.oauthbearer.clock.skew.seconds"
    if is_valid:
        assert build_config({key: value}).security.clock_skew_seconds == int(value)
    else:
        with pytest.raises(ConfigError):
            build_config({key: value})


@pytest.mark.parametrize("claim", ["scope", "sub"])
def test_a_claim_has_a_name(claim: str) -> None:
    with pytest.raises(ConfigError, match="the name of a claim"):
        build_config({f"sasl.oauthbearer.{claim}.claim.name": " "})


def test_logins_end_where_tokens_can_be_used() -> None:
    url = "listener.name.a." + JWKS_URL
    security = build_config({url: "https://id.example/keys"}).security
    assert (security.logins_end("A"), security.logins_end("B")) == (True, False)


def test_kafkas_classes_are_accepted_with_a_warning_each() -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl."
    texts = (f"{prefix}jaas.config=a.Module required;", f"{prefix}server.callback.handler.class=a.Handler")
    warnings = load(None, ["listeners=SASL_PLAINTEXT://127.0.0.1:0", *texts], {}).warnings
    assert len([each for each in warnings if "has no effect: tokens are always checked" in each]) == 2
    assert not [each for each in warnings if "a.Module" in each]
