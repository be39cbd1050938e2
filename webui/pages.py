"""The console's pages: the entries of the menu with their pages, the templates, and the static files.

Used by webui.http.page_routes. Templates contain only the frame of a page: names chosen by clients reach a
page only as JSON, and scripts insert them as text. Path traversal is impossible: the name of a static file
is a key of a dictionary filled from the package's own directory.
"""

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

import templates
import webui


class Page(msgspec.Struct, frozen=True):
    """One page. `key` names the template (`<key>.html`), the script (`js/<key>.js`) and, unless it has the
    `style` of another, the style sheet. `tab` is its name among the pages of its entry.
    """

    key: str
    path: str
    title: str
    tab: str = ""
    style: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One entry of the menu, which leads to the first of its pages. Each page has the others as tabs.
    `key` names the icon.
    """

    key: str
    title: str
    pages: tuple[Page, ...]


ENTRIES: Final = (
    Entry("overview", "Overview", (Page("overview", "/", "Overview"),)),
    Entry(
        "throttled",
        "Throttling",
        (
            Page("throttled", "/throttled", "Throttled now", "Now"),
            Page("explain", "/explain", "Explain", "Explain"),
        ),
    ),
    Entry(
        "quotas",
        "Quotas",
        (
            Page("quotas", "/quotas", "Client quotas", "Clients"),
            Page("broker_quotas", "/broker-quotas", "Broker quotas", "Broker"),
            Page("addresses", "/ip-quotas", "IP quotas", "Addresses"),
        ),
    ),
    Entry(
        "connections",
        "Clients",
        (
            Page("connections", "/connections", "Connections", "Connections"),
            Page("telemetry", "/client-metrics", "Client metrics", "Metrics"),
        ),
    ),
    Entry("topics", "Topics", (Page("topics", "/topics", "Topics"),)),
    Entry(
        "groups",
        "Groups",
        (
            Page("groups", "/groups", "Groups", "Groups"),
            Page("transactions", "/transactions", "Transactions", "Transactions"),
        ),
    ),
    Entry(
        "doctor",
        "Health",
        (
            Page("alerts", "/alerts", "Alerts", "Alerts"),
            Page("doctor", "/doctor", "Doctor", "Doctor"),
            Page("requests", "/requests", "Requests", "Requests"),
            Page("upstream", "/upstream", "Upstream", "Upstream"),
        ),
    ),
    Entry(
        "settings",
        "Admin",
        (
            Page("settings", "/settings", "Settings", "Settings"),
            Page("scram", "/scram-users", "SCRAM users", "SCRAM users"),
            Page("acls", "/acls", "ACLs", "ACLs"),
            Page("delegation_tokens", "/delegation-tokens", "Delegation tokens", "Delegation tokens"),
            Page("access", "/access", "Access tokens", "Access tokens"),
            Page("audit", "/audit", "Audit", "Audit"),
            Page("tasks", "/tasks", "Tasks", "Tasks"),
            Page("insights", "/insights", "Insights", "Insights"),
        ),
    ),
)

PAGES: Final = tuple(page for entry in ENTRIES for page in entry.pages)


class Kind(msgspec.Struct, frozen=True):
    """Things with a page of their own each, below the page that lists them: `/topics/NAME`, where the name is
    as in the paths of REST (webui.path_names; of a quota the id of its rule). `tabs` are its pages; their
    paths are relative to it.
    """

    noun: str
    listed: str
    tabs: tuple[Page, ...]

    def tab(self, wanted: str) -> Page:
        """Return the tab of the query's `tab`, the first one if there is none."""
        return next((page for page in self.tabs if page.path == f"?tab={wanted}"), self.tabs[0])


QUOTA: Final = "quota"
"""The noun of a quota rule."""

KINDS: Final = (
    Kind(
        "topic",
        "/topics",
        (
            Page("topic_records", "?", "Topic", "Records"),
            Page("topic_partitions", "?tab=partitions", "Topic", "Partitions", "topics"),
            Page("topic_consumers", "?tab=consumers", "Topic", "Clients", "topics"),
            Page("topic_config", "?tab=config", "Topic", "Config", "topics"),
        ),
    ),
    Kind(
        "group",
        "/groups",
        (
            Page("group_members", "?", "Group", "Members", "groups"),
            Page("group_offsets", "?tab=offsets", "Group", "Offsets", "groups"),
            Page("group_reset", "?tab=reset", "Group", "Reset", "groups"),
        ),
    ),
    Kind(
        QUOTA,
        "/quotas",
        (
            Page("quota_limits", "?", "Quota", "Limits", "quotas"),
            Page("quota_clients", "?tab=clients", "Quota", "Clients", "quotas"),
            Page("quota_throttles", "?tab=throttles", "Quota", "Throttles", "quotas"),
            Page("quota_changes", "?tab=changes", "Quota", "Changes", "quotas"),
        ),
    ),
)

MISSING: Final = Page("missing", "", "Not found", style="topics")
"""The page of a thing that does not exist."""


UPSTREAMS: Final = ("delegation_tokens",)
"""The pages of what a gateway cannot show of its upstream cluster: a login sees its own tokens only."""

UPSTREAMS_OWN: Final = "upstreams_own"
"""The template and script that a gateway has in their place."""


@cache
def menu(*, is_gateway: bool) -> tuple[Entry, ...]:
    """Return the entries with the pages that a broker or a gateway has."""
    hidden = UPSTREAMS if is_gateway else ("upstream",)
    return tuple(
        msgspec.structs.replace(entry, pages=tuple(page for page in entry.pages if page.key not in hidden))
        for entry in ENTRIES
    )


MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


COMMON: Final = ("tokens", "base", "shell", "parts", "chart", "editor")
"""The style sheets of every page, in order, served as one file, css/common.css."""


_IMPORT: Final = re.compile(r'from "\./(\w+)\.js"')


class StaticFiles:
    """All static files. `version` is a hash of all of them and part of every address, so browsers may cache
    files indefinitely and never mix releases.
    """

    __slots__ = ("_files", "version")

    def __init__(self) -> None:
        self._files = dict(sorted(_walk(files(webui) / "static", "")))
        self._files["css/common.css"] = b"\n".join(self._files[f"css/{name}.css"] for name in COMMON)
        everything = sha256()
        for name, content in self._files.items():
            everything.update(name.encode() + b"\0" + content)
        self.version = everything.hexdigest()[:12]

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def modules(self, key: str) -> list[str]:
        """Return what a page's script imports, directly or not: the browser preloads it."""
        wanted, found = [key], {key}
        while wanted:
            content = self._files[f"js/{wanted.pop()}.js"].decode()
            imported = set(_IMPORT.findall(content)) - found
            found |= imported
            wanted += imported
        return sorted(found - {key})

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
            loader=PackageLoader(templates.__name__, ""),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        every = (*PAGES, *(page for kind in KINDS for page in kind.tabs), MISSING)
        modules = {page.key: static.modules(page.key) for page in every}
        self._environment.globals.update(menu=menu, static=static.address, modules=modules)
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
