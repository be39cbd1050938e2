"""Every page has a template, and every template compiles."""

import pytest

from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.pages import (
    KINDS,
    MISSING,
    PAGES,
    UPSTREAMS,
    UPSTREAMS_OWN,
    Kind,
    Page,
    Renderer,
    StaticFiles,
    menu,
)

EVERY: list[tuple[Page, Kind | None]] = [(page, None) for page in PAGES]
EVERY += [(page, kind) for kind in KINDS for page in (*kind.tabs, MISSING)]
HOSTILE = "\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(StaticFiles())


def harmless(html: str) -> bool:
    return "<img src=x" not in html and "&lt;img src=x" in html and "{{ 7 * 7 }}" in html


@pytest.mark.parametrize("is_gateway", [False, True], ids=["broker", "gateway"])
@pytest.mark.parametrize(
    ("page", "kind"),
    EVERY,
    ids=lambda each: "" if each is None else each.key if isinstance(each, Page) else each.noun,
)
def test_no_name_is_markup_on_a_page(
    renderer: Renderer, page: Page, kind: Kind | None, is_gateway: bool
) -> None:
    template = UPSTREAMS_OWN if is_gateway and page.key in UPSTREAMS else page.key
    values = {"csrf": HOSTILE, "who": HOSTILE, "role": HOSTILE, "quota_callback": HOSTILE}
    named = ClientEndpoint(HOSTILE, "SASL_SSL", ("PLAIN",))
    flags = {
        "may_edit": True,
        "is_gateway": is_gateway,
        "may_browse": False,
        "browse_role": "admin",
        "mechanisms": [HOSTILE],
        "kind": kind,
    }
    assert harmless(renderer.render(f"{template}.html", page=page, endpoint=named, **flags, **values))


def test_no_refusal_is_markup(renderer: Renderer) -> None:
    assert harmless(renderer.render("error.html", status=404, title=HOSTILE, detail=HOSTILE))
    assert harmless(renderer.render("login.html", message=HOSTILE))


def test_the_menu_lists_what_there_is() -> None:
    broker, gateway = menu(is_gateway=False), menu(is_gateway=True)
    keys = {page.key for entry in broker for page in entry.pages}
    assert keys == {page.key for page in PAGES} - {"upstream"}
    assert {page.key for entry in gateway for page in entry.pages} == keys - set(UPSTREAMS) | {"upstream"}
    titles = ["Overview", "Throttling", "Quotas", "Clients", "Topics", "Groups", "Health", "Admin"]
    assert [entry.title for entry in broker] == titles == [entry.title for entry in gateway]
    assert all(page.tab for entry in broker for page in entry.pages if len(entry.pages) > 1)
