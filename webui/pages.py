"""The console's pages: the list of pages in the sidebar, their templates, and the static files.

Used by webui.http.page_routes. Templates contain only the frame of a page: names chosen by clients reach a
page only as JSON, and scripts insert them as text. Path traversal is impossible: the name of a static file
is a key of a dictionary filled from the package's own directory.
"""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined


class Page(msgspec.Struct, frozen=True):
    """One page. `key` names the template (`<key>.html`), the script (`js/<key>.js`), the style sheet and the
    icon. `modules` are the script's transitive imports, which the browser preloads.
    """

    key: str
    path: str
    title: str
    section: str
    modules: tuple[str, ...]


_PLAIN_FRAME: Final = (
    *("api", "credentials", "display", "dom", "live", "names", "session", "shell", "units", "unsaved"),
)
_FRAME: Final = (*_PLAIN_FRAME, "entity")
_EDITOR: Final = (
    "consequences",
    "entity_picker",
    "quota_editor",
    "quota_preview",
    "quota_removal",
    "quota_saving",
)
_PLAIN: Final = (*_PLAIN_FRAME, "table")
_OPENING: Final = (*_PLAIN, "details", "listing")

PAGES: Final = (
    Page(
        "overview",
        "/",
        "Overview",
        "Now",
        (*_FRAME, "audit_text", "broker_rule", "chart", "charts", "quota_marks", "shortlists", "vitals"),
    ),
    Page(
        "throttled",
        "/throttled",
        "Throttled now",
        "Now",
        (*_FRAME, "audit_text", "broker_rule", "chart", "quota_marks", "recent_throttles", "table"),
    ),
    Page(
        "alerts",
        "/alerts",
        "Alerts",
        "Now",
        (*_PLAIN, "alert_destination", "alert_rule"),
    ),
    Page("doctor", "/doctor", "Doctor", "Now", _PLAIN),
    Page(
        "quotas",
        "/quotas",
        "Client quotas",
        "Limits",
        (
            *(*_FRAME, *_EDITOR),
            *("chart", "import_panel", "quota_import", "selection", "table", "unlimited", "use_history"),
        ),
    ),
    Page(
        "broker_quotas",
        "/broker-quotas",
        "Broker quotas",
        "Limits",
        (*_PLAIN, "broker_limit_editor", "broker_limits", "consequences"),
    ),
    Page(
        "addresses",
        "/ip-quotas",
        "IP quotas",
        "Limits",
        (*_PLAIN, "address_editor", "consequences", "listing"),
    ),
    Page("explain", "/explain", "Explain", "Limits", (*_FRAME, "explain_answer", "what_if")),
    Page("connections", "/connections", "Connections", "Clients", (*_PLAIN, "listing")),
    Page(
        "groups",
        "/groups",
        "Groups",
        "Clients",
        (*_OPENING, "chart", "consequences", "group_panels", "lag_chart", "partition_list"),
    ),
    Page(
        "transactions",
        "/transactions",
        "Transactions",
        "Clients",
        (*_OPENING, "consequences", "transaction_panel"),
    ),
    Page(
        "telemetry",
        "/client-metrics",
        "Client metrics",
        "Clients",
        (
            *_PLAIN,
            *("chart", "consequences", "import_panel", "instance_panel", "listing", "metric_chart"),
            *("subscription_editor", "subscription_import"),
        ),
    ),
    Page("upstream", "/upstream", "Upstream", "Broker", (*_PLAIN, "entity", "listing")),
    Page(
        "topics",
        "/topics",
        "Topics",
        "Broker",
        (*_OPENING, "consequences", "topic_configs", "topic_panels"),
    ),
    Page(
        "records",
        "/records",
        "Records",
        "Broker",
        (*_PLAIN, "partition_list", "produce_panel", "record_bytes", "record_question"),
    ),
    Page("settings", "/settings", "Settings", "Broker", (*_PLAIN, "consequences", "setting_panel")),
    Page("tasks", "/tasks", "Tasks", "Broker", _PLAIN),
    Page(
        "audit",
        "/audit",
        "Audit",
        "Broker",
        (*_FRAME, "audit_text", "consequences", "quota_preview", "table", "token_panels", "undo_panel"),
    ),
    Page(
        "insights",
        "/insights",
        "Insights",
        "Broker",
        (
            *_FRAME,
            *("chart", "insight_advice", "insight_cells", "insight_comparison", "insight_compliance"),
            *("insight_cost", "insight_needs", "insight_proposal", "insight_section", "insight_software"),
            *("insight_tables", "insight_views", "insight_what_if", "insight_written", "table"),
        ),
    ),
    Page(
        "scram", "/scram-users", "SCRAM users", "Broker", (*_PLAIN, "listing", "scram_panels", "token_panels")
    ),
    Page(
        "delegation_tokens",
        "/delegation-tokens",
        "Delegation tokens",
        "Broker",
        (*_PLAIN, "delegation_token_panel", "listing", "token_panels"),
    ),
    Page(
        "acls",
        "/acls",
        "ACLs",
        "Broker",
        (*_PLAIN, "acl_names", "acl_panels", "acl_question", "listing", "token_panels"),
    ),
    Page(
        "access", "/access", "Access", "Broker", (*_PLAIN, "password_panel", "session_panel", "token_panels")
    ),
)


UPSTREAMS: Final = ("topics", "groups", "transactions", "records", "delegation_tokens", "acls")
"""The pages of what a gateway's upstream cluster has and the gateway has not."""

UPSTREAMS_OWN: Final = "upstreams_own"
"""The template and script that a gateway has in their place."""


def sections(*, is_gateway: bool) -> dict[str, list[Page]]:
    """Return the pages by sidebar section, in the order of `PAGES`."""
    hidden = UPSTREAMS if is_gateway else ("upstream",)
    made: dict[str, list[Page]] = {}
    for page in PAGES:
        if page.key not in hidden:
            section = "Gateway" if is_gateway and page.section == "Broker" else page.section
            made.setdefault(section, []).append(page)
    return made


MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


COMMON: Final = ("tokens", "base", "shell", "parts", "chart", "editor")
"""The style sheets of every page, in order, served as one file, css/common.css."""


class StaticFiles:
    """All static files. `version` is a hash of all of them and part of every address, so browsers may cache
    files indefinitely and never mix releases.
    """

    __slots__ = ("_files", "version")

    def __init__(self) -> None:
        self._files = dict(sorted(_walk(files("webui") / "static", "")))
        self._files["css/common.css"] = b"\n".join(self._files[f"css/{name}.css"] for name in COMMON)
        everything = sha256()
        for name, content in self._files.items():
            everything.update(name.encode() + b"\0" + content)
        self.version = everything.hexdigest()[:12]

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Return content and media type, or None."""
        content = self._files.get(name)
        return None if content is None else (content, MEDIA[name[name.rindex(".") :]])

    def address(self, name: str) -> str:
        """Return the path of a file. Raises KeyError for an unknown name, so that no template has a dead
        link.
        """
        if name not in self._files:
            raise KeyError(name)
        return f"/static/{self.version}/{name}"


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(suffix) for suffix in MEDIA):
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


class Renderer:
    """A Jinja environment that compiles all templates at startup."""

    __slots__ = ("_environment",)

    def __init__(self, static: StaticFiles) -> None:
        self._environment = Environment(
            loader=PackageLoader("templates", ""),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(sections=sections, static=static.address)
        for name in self._environment.list_templates():
            if name.endswith(".html"):
                self._environment.get_template(name)

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)


@cache
def shared_renderer() -> Renderer:
    """Return the one of this process. Every console has the same templates and static files."""
    return Renderer(shared_files())


@cache
def shared_files() -> StaticFiles:
    """Return those of this process, read once."""
    return StaticFiles()
