"""Every icon that a page or a script names is drawn, and every drawing is used."""

import re
from typing import Final

from tests.conventions.sources import ROOT
from webui.pages import ENTRIES

TEMPLATES: Final = ROOT / "templates"
SCRIPTS: Final = ROOT / "webui" / "static" / "js"
DRAWN: Final = re.compile(r'<symbol id="i-(\w+)"')
ON_PAGES: Final = re.compile(r'href="#i-(\w+)"')
IN_SCRIPTS: Final = re.compile(r'\b(?:icon|iconButton|empty)\("(\w+)"')


def test_the_icons_that_are_named_are_those_that_are_drawn() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.html")}
    drawn = DRAWN.findall(pages["icons.html"])
    named = {name for text in pages.values() for name in ON_PAGES.findall(text)}
    for script in SCRIPTS.glob("*.js"):
        named |= set(IN_SCRIPTS.findall(script.read_text(encoding="utf-8")))
    # The menu has one for each entry.
    named |= {entry.key for entry in ENTRIES}
    assert len(set(drawn)) == len(drawn)
    assert named - set(drawn) == set()
    assert set(drawn) - named == set()


def test_an_abort_looks_like_no_removal() -> None:
    script = (SCRIPTS / "transactions.js").read_text(encoding="utf-8")
    assert IN_SCRIPTS.findall(script.partition("function actionsCell")[2]) == ["abort"]
