"""The host name of the pages, which no other service on this machine has."""

import pytest

from tests.webui.fakes import FakeAddress, FakeSettings
from webui.security.origin import OwnHost


def at(bound: str = "127.0.0.1", **settings: object) -> OwnHost:
    return OwnHost(FakeSettings(FakeAddress(bound), **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1", "", "0.0.0.0", "::"])
@pytest.mark.parametrize(
    ("header", "origin"),
    [
        ("127.0.0.1:8080", "http://weir-8080.localhost:8080"),
        ("localhost:8080", "http://weir-8080.localhost:8080"),
        ("LOCALHOST:8080", "http://weir-8080.localhost:8080"),
        ("[::1]:8080", "http://weir-8080.localhost:8080"),
        ("localhost", "http://weir-80.localhost:80"),
        ("weir-9090.localhost:8080", "http://weir-8080.localhost:8080"),
        ("weir-8080.localhost:8080", None),
        ("Weir-8080.Localhost:8080", None),
        ("weir-80.localhost", None),
        ("weir.example:8080", None),
        ("10.0.0.7:8080", None),
        ("", None),
    ],
)
def test_pages_by_a_loopback_address_are_at_a_name_with_the_port(
    bound: str, header: str, origin: str | None
) -> None:
    assert at(bound).elsewhere("http", header) == origin


@pytest.mark.parametrize("settings", [{"bound": "10.0.0.7"}, {"bound": "127.0.0.2"}, {"is_encrypted": True}])
def test_a_console_on_one_other_address_or_with_a_certificate_keeps_its_name(
    settings: dict[str, object],
) -> None:
    own = at(**settings)  # type: ignore[arg-type]
    assert own.elsewhere("https", "127.0.0.1:8080") is None
    assert not own.knows("weir-8080.localhost")


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    ("header", "origin"),
    [
        ("127.0.0.1:8080", "https://weir.example"),
        ("localhost:8080", "https://weir.example"),
        ("weir-8080.localhost:8080", "https://weir.example"),
        ("10.0.0.7:8080", "https://weir.example"),
        ("[2001:db8::7]:8080", "https://weir.example"),
        ("weir.example", None),
        ("weir.example:443", None),
        ("also-allowed.example", None),
    ],
)
def test_a_public_url_takes_its_place(bound: str, header: str, origin: str | None) -> None:
    assert at(bound, public_url="https://weir.example").elsewhere("http", header) == origin


@pytest.mark.parametrize("header", ["127.0.0.1:8080", "127.0.0.1:18080"])
def test_an_address_as_public_url_is_for_browsers_that_do_not_know_localhost_names(header: str) -> None:
    own = at(public_url="http://127.0.0.1:8080")
    assert own.elsewhere("http", header) is None
    assert own.elsewhere("http", "localhost:8080") == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("weir-1.localhost", True),
        ("weir-65535.localhost", True),
        ("weir-123456.localhost", False),
        ("weir-.localhost", False),
        ("weir-08080.localhost", False),
        ("weir-8080.localhost.evil.example", False),
        ("weir-8080.localhostx", False),
        ("evil-8080.localhost", False),
        ("weir-٣.localhost", False),
    ],
)
def test_only_names_of_ports_are_known(name: str, known: bool) -> None:
    assert at().knows(name) is known


@pytest.mark.parametrize(
    ("bound", "settings", "url"),
    [
        ("127.0.0.1", {}, "http://weir-8080.localhost:8080/"),
        ("0.0.0.0", {}, "http://weir-8080.localhost:8080/"),
        ("::1", {}, "http://weir-8080.localhost:8080/"),
        ("10.0.0.7", {}, "http://10.0.0.7:8080/"),
        ("2001:db8::7", {}, "http://[2001:db8::7]:8080/"),
        ("127.0.0.1", {"is_encrypted": True}, "https://127.0.0.1:8080/"),
        ("0.0.0.0", {"is_encrypted": True}, "https://127.0.0.1:8080/"),
        ("0.0.0.0", {"public_url": "https://weir.example"}, "https://weir.example/"),
    ],
)
def test_the_printed_url_has_the_name(bound: str, settings: dict[str, object], url: str) -> None:
    encrypted = bool(settings.get("is_encrypted"))
    assert at(bound, **settings).url(bound, 8080, is_encrypted=encrypted) == url
