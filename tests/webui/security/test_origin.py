"""Where a request comes from: its Host header, its site, and the host name of the pages."""

import pytest

from tests.webui.fakes import console_config
from webui.security.origin import AllowedHosts, OwnHost, host_name, is_allowed_origin, is_cross_site

OWN = {"Host": "127.0.0.1:8080"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_pages_and_the_address_bar_are_ours(site: str) -> None:
    assert is_allowed_origin("PATCH", "http", OWN | {"Sec-Fetch-Site": site})


def test_a_page_of_ours_may_have_come_over_a_tls_that_ended_before_us() -> None:
    behind_tls = {"Host": "console.example", "Origin": "https://console.example"}
    assert is_allowed_origin("POST", "http", behind_tls | {"Sec-Fetch-Site": "same-origin"})
    assert not is_allowed_origin("POST", "http", behind_tls | {"Sec-Fetch-Site": "same-site"})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE"])
def test_scripts_and_forms_of_other_sites_and_other_ports_are_not(site: str, method: str) -> None:
    assert not is_allowed_origin(method, "http", OWN | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})


def test_a_link_from_elsewhere_may_open_a_page() -> None:
    assert is_allowed_origin("GET", "http", OWN | NAVIGATION | {"Sec-Fetch-Site": "cross-site"})


def test_a_form_from_elsewhere_may_not_open_one_by_post() -> None:
    assert not is_allowed_origin("POST", "http", OWN | NAVIGATION | {"Sec-Fetch-Site": "cross-site"})


def test_a_frame_is_no_page() -> None:
    framed = OWN | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert not is_allowed_origin("GET", "http", framed)


@pytest.mark.parametrize(
    ("origin", "ours"),
    [
        ("http://127.0.0.1:8080", True),
        ("HTTP://127.0.0.1:8080", True),
        ("http://127.0.0.1:8081", False),
        ("https://127.0.0.1:8080", False),
        ("http://evil.example", False),
        ("null", False),
    ],
)
def test_a_browser_without_fetch_metadata_is_judged_by_its_origin(origin: str, ours: bool) -> None:
    assert is_allowed_origin("POST", "http", OWN | {"Origin": origin}) is ours


def test_programs_say_neither_and_are_let_through_to_the_token() -> None:
    assert is_allowed_origin("PATCH", "http", OWN)


def test_a_link_from_elsewhere_is_foreign_even_where_it_may_open_a_page() -> None:
    assert is_cross_site({"Sec-Fetch-Site": "cross-site"}) and is_cross_site({"Sec-Fetch-Site": "same-site"})
    assert not is_cross_site({"Sec-Fetch-Site": "none"}) and not is_cross_site({})


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


def at(bound: str = "127.0.0.1", **settings: object) -> OwnHost:
    return OwnHost(console_config(bound, **settings))


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
    assert at(bound).redirect_origin("http", header) == origin


@pytest.mark.parametrize(
    "settings", [{"bound": "10.0.0.7"}, {"bound": "127.0.0.2"}, {"ssl_keystore_location": "console.pem"}]
)
def test_a_console_on_one_other_address_or_with_a_certificate_keeps_its_name(
    settings: dict[str, object],
) -> None:
    own = at(**settings)  # type: ignore[arg-type]
    assert own.redirect_origin("https", "127.0.0.1:8080") is None
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
    assert at(bound, public_url="https://weir.example").redirect_origin("http", header) == origin


@pytest.mark.parametrize("header", ["127.0.0.1:8080", "127.0.0.1:18080"])
def test_an_address_as_public_url_is_for_browsers_that_do_not_know_localhost_names(header: str) -> None:
    own = at(public_url="http://127.0.0.1:8080")
    assert own.redirect_origin("http", header) is None
    assert own.redirect_origin("http", "localhost:8080") == "http://127.0.0.1:8080"


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
        ("127.0.0.1", {"ssl_keystore_location": "console.pem"}, "https://127.0.0.1:8080/"),
        ("0.0.0.0", {"ssl_keystore_location": "console.pem"}, "https://127.0.0.1:8080/"),
        ("0.0.0.0", {"public_url": "https://weir.example"}, "https://weir.example/"),
    ],
)
def test_the_printed_url_has_the_name(bound: str, settings: dict[str, object], url: str) -> None:
    encrypted = bool(settings.get("ssl_keystore_location"))
    assert at(bound, **settings).url(bound, 8080, is_encrypted=encrypted) == url
