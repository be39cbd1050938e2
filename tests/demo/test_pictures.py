"""The pictures of the documentation show the menu of today, and are those that `make pictures` takes."""

import json
import re

import pytest

from demo.picture_list import LEFT_OUT, MENUS, OF_INSIGHTS, shown_menu
from tests.conventions.sources import ROOT
from webui.pages import PAGES, Page

IMAGES = ROOT / "docs" / "images"
SHOWN = [page for page in PAGES if page.key not in LEFT_OUT]
OTHERS = {
    "first-run",
    "records",
    "phone-overview",
    "phone-throttled",
    *(f"insights-{view}" for view in OF_INSIGHTS),
}


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.key)
def test_a_picture_shows_the_menu_of_today(page: Page) -> None:
    menus = json.loads((IMAGES / MENUS).read_text(encoding="utf-8"))
    assert menus.get(page.key) == shown_menu(page), "run make pictures, and look at them"


def test_the_pictures_are_those_that_the_command_takes() -> None:
    taken = {f"console-{name}.webp" for name in OTHERS | {page.key for page in SHOWN}}
    assert {path.name for path in IMAGES.glob("console-*.webp")} == taken


def test_every_picture_is_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    used = set(re.findall(r"images/(console-[\w-]+\.webp)", text))
    assert used == {path.name for path in IMAGES.glob("console-*.webp")}
