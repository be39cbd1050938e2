"""Which pages of the console have a picture in the documentation, and the menu that it shows.

Used by demo.pictures and by the test that compares it with the menu of today.
"""

from typing import Final

from webui.pages import Page, menu

LEFT_OUT: Final = frozenset({"upstream", "broker_quotas", "delegation_tokens"})
"""Pages without a picture: of gateways, and those that have nothing to show here."""

OF_INSIGHTS: Final = ("quotas", "throttling", "latency")
"""Views of Insights that have a picture of their own."""

MENUS: Final = "console-menus.json"
"""In the folder: the menu and the tabs that each picture shows. A test compares them with those of today."""


def shown_menu(page: Page) -> str:
    """Return the entries of a broker's menu, and the tabs of the page's own."""
    entries = menu(is_gateway=False)
    tabs = next((entry.pages for entry in entries if page in entry.pages), ())
    return " ".join(entry.title for entry in entries) + " / " + " ".join(each.tab for each in tabs)
