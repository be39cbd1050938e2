"""Validation of Host headers."""

import pytest

from webui.security.origin import AllowedHosts, host_name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("127.0.0.1:8080", "127.0.0.1"),
        ("[::1]:8080", "::1"),
        ("[::1]", "::1"),
        ("", ""),
        ("[::1", ""),
        ("[::1]evil", ""),
        ("localhost:80:80", ""),
        ("localhost:", ""),
        ("localhost:8o80", ""),
        ("localhost:٣", ""),
        ("localhost@evil.example", "localhost@evil.example"),
    ],
)
def test_the_name_is_what_stands_before_the_port(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    "header", ["localhost", "127.0.0.1:8080", "[::1]:8080", "weir.example", "WEIR.example:1"]
)
def test_loopback_and_configured_names_are_answered(header: str) -> None:
    assert AllowedHosts("127.0.0.1", ["Weir.Example"]).allow(header)


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "10.0.0.7",
        "localhost@evil.example",
    ],
)
def test_other_names_are_refused_where_the_console_is_on_loopback(header: str) -> None:
    assert not AllowedHosts("127.0.0.1", ["weir.example"]).allow(header)


@pytest.mark.parametrize("bound", ["", "0.0.0.0", "::"])
def test_bound_to_every_interface_any_address_is_a_name_but_no_name_is(bound: str) -> None:
    hosts = AllowedHosts(bound)
    assert hosts.allow("10.0.0.7:8080") and hosts.allow("[2001:db8::7]:8080")
    assert not hosts.allow("evil.example:8080")


def test_the_host_of_the_listener_is_answered() -> None:
    assert AllowedHosts("weir.internal").allow("weir.internal:8080")
