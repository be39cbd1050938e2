"""Detection of cross-site requests."""

import pytest

from webui.security.origin import is_foreign, is_ours

OWN = {"Host": "127.0.0.1:8080"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_pages_and_the_address_bar_are_ours(site: str) -> None:
    assert is_ours("PATCH", "http", OWN | {"Sec-Fetch-Site": site})


def test_a_page_of_ours_may_have_come_over_a_tls_that_ended_before_us() -> None:
    behind_tls = {"Host": "console.example", "Origin": "https://console.example"}
    assert is_ours("POST", "http", behind_tls | {"Sec-Fetch-Site": "same-origin"})
    assert not is_ours("POST", "http", behind_tls | {"Sec-Fetch-Site": "same-site"})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PATCH", "DELETE"])
def test_scripts_and_forms_of_other_sites_and_other_ports_are_not(site: str, method: str) -> None:
    assert not is_ours(method, "http", OWN | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})


def test_a_link_from_elsewhere_may_open_a_page() -> None:
    assert is_ours("GET", "http", OWN | NAVIGATION | {"Sec-Fetch-Site": "cross-site"})


def test_a_form_from_elsewhere_may_not_open_one_by_post() -> None:
    assert not is_ours("POST", "http", OWN | NAVIGATION | {"Sec-Fetch-Site": "cross-site"})


def test_a_frame_is_no_page() -> None:
    framed = OWN | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    assert not is_ours("GET", "http", framed)


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
    assert is_ours("POST", "http", OWN | {"Origin": origin}) is ours


def test_programs_say_neither_and_are_let_through_to_the_token() -> None:
    assert is_ours("PATCH", "http", OWN)


def test_a_link_from_elsewhere_is_foreign_even_where_it_may_open_a_page() -> None:
    assert is_foreign({"Sec-Fetch-Site": "cross-site"}) and is_foreign({"Sec-Fetch-Site": "same-site"})
    assert not is_foreign({"Sec-Fetch-Site": "none"}) and not is_foreign({})
