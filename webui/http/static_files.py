"""Scripts, styles and icons: read once from the package, kept in memory, served by exact name.

Used by http.app and the page templates. Path traversal is impossible: a name is a key of a dictionary filled
from the package's own directory.
"""

from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

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
