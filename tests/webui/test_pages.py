"""Every page has a template, and every template compiles."""

import pytest

from webui.pages import PAGES, Renderer, StaticFiles

HOSTILE = "\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(StaticFiles())


def harmless(html: str) -> bool:
    return "<img src=x" not in html and "&lt;img src=x" in html and "{{ 7 * 7 }}" in html


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
def test_no_name_is_markup_on_a_page(renderer: Renderer, page: object) -> None:
    values = {"csrf": HOSTILE, "who": HOSTILE, "role": HOSTILE, "quota_callback": HOSTILE}
    html = renderer.render(f"{page.key}.html", page=page, may_edit=True, **values)  # type: ignore[attr-defined]
    assert harmless(html)


def test_no_refusal_is_markup(renderer: Renderer) -> None:
    assert harmless(renderer.render("error.html", status=404, title=HOSTILE, detail=HOSTILE))
    assert harmless(renderer.render("login.html", message=HOSTILE))
