"""Renders templates to HTML.

Used by webui.pages.views. Templates contain only the frame of a page: names chosen by clients reach a page
only as JSON, and scripts insert them as text.
"""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from webui.http.static_files import StaticFiles
from webui.pages.catalogue import sections


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
        self._environment.globals.update(sections=sections(), static=static.address)
        for name in self._environment.list_templates():
            if name.endswith(".html"):
                self._environment.get_template(name)

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)
