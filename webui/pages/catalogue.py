"""The console's pages: path, title, template and script. The sidebar lists them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `key` names the template (`<key>.html`), the script (`js/<key>.js`), the style sheet and the
    icon. `modules` are the script's transitive imports, which the browser preloads.
    """

    key: str
    path: str
    title: str
    section: str
    modules: tuple[str, ...]


_FRAME: Final = ("api", "credentials", "dom", "entity", "live", "session", "shell", "units")
_EDITOR: Final = ("entity_picker", "quota_editor", "quota_preview", "quota_removal", "quota_saving")
_PLAIN: Final = ("api", "credentials", "dom", "live", "session", "shell", "table", "units")
_OPENING: Final = (
    "api",
    "credentials",
    "details",
    "dom",
    "listing",
    "live",
    "session",
    "shell",
    "table",
    "units",
)

PAGES: Final = (
    Page(
        "overview",
        "/",
        "Overview",
        "Now",
        (*_FRAME, "broker_rule", "chart", "charts", "shortlists", "vitals"),
    ),
    Page(
        "throttled",
        "/throttled",
        "Throttled now",
        "Now",
        (*_FRAME, "broker_rule", "chart", "held_lately", "table"),
    ),
    Page("doctor", "/doctor", "Doctor", "Now", _PLAIN),
    Page(
        "quotas",
        "/quotas",
        "Client quotas",
        "Limits",
        (*_FRAME, *_EDITOR, "chart", "selection", "table", "unlimited"),
    ),
    Page(
        "broker_quotas",
        "/broker-quotas",
        "Broker quotas",
        "Limits",
        (*_PLAIN, "broker_limit_editor", "broker_limits"),
    ),
    Page("addresses", "/ip-quotas", "IP quotas", "Limits", (*_PLAIN, "address_editor", "listing")),
    Page("explain", "/explain", "Explain", "Limits", (*_FRAME, "explain_answer", "what_if")),
    Page("connections", "/connections", "Connections", "Clients", (*_PLAIN, "listing")),
    Page("groups", "/groups", "Groups", "Clients", _OPENING),
    Page(
        "telemetry",
        "/client-metrics",
        "Client metrics",
        "Clients",
        (*_PLAIN, "chart", "instance_panel", "listing", "subscription_editor"),
    ),
    Page("topics", "/topics", "Topics", "Broker", _OPENING),
    Page("tasks", "/tasks", "Tasks", "Broker", _PLAIN),
    Page(
        "audit",
        "/audit",
        "Audit",
        "Broker",
        (*_FRAME, "audit_words", "quota_preview", "table", "undo_panel"),
    ),
    Page(
        "insights",
        "/insights",
        "Insights",
        "Broker",
        (
            *_FRAME,
            *("chart", "insight_advice", "insight_section", "insight_tables", "insight_what_if", "table"),
        ),
    ),
    Page(
        "access", "/access", "Access", "Broker", (*_PLAIN, "password_panel", "session_panel", "token_panels")
    ),
)


def sections() -> dict[str, list[Page]]:
    """Return the pages by sidebar section, in the order of `PAGES`."""
    made: dict[str, list[Page]] = {}
    for page in PAGES:
        made.setdefault(page.section, []).append(page)
    return made
