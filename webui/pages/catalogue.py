"""The pages there are: address, name, template and script; the sidebar is drawn from this."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Page:
    """`key` names the template (`<key>.html`), the script (`js/<key>.js`) and the icon."""

    key: str
    path: str
    title: str
    section: str


PAGES: Final = (
    Page("overview", "/", "Overview", "Now"),
    Page("throttled", "/throttled", "Throttled now", "Now"),
    Page("quotas", "/quotas", "Client quotas", "Limits"),
)


def sections() -> dict[str, list[Page]]:
    """The sidebar, in the order in which the pages are written above."""
    made: dict[str, list[Page]] = {}
    for page in PAGES:
        made.setdefault(page.section, []).append(page)
    return made
