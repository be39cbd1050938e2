"""What MkDocs does with the links of docs/, which are written for a checkout and for GitHub.

mkdocs.yml names this file. The pages in the repository's root become pages of the site. A link to a source
file becomes its name, or a link below `extra.source` if that is set. MkDocs itself finds a link without a
target, which is an error in strict mode.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
ROOT_PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "LICENSE": "license.md",
}
"""Files of the root, and what the site calls them."""

LEFT_OUT: Final = frozenset({"benchmarks-log.md"})
"""Pages of docs/ that the site has not; mkdocs.yml excludes them."""

LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]+)?\)")
FENCE: Final = re.compile(r"^(\s*```.*?^\s*```)", re.MULTILINE | re.DOTALL)


def on_files(files: "Files", *, config: "MkDocsConfig") -> "Files":
    """Add the pages of the root."""
    from mkdocs.structure.files import File

    for source, name in ROOT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if not source.endswith(".md"):
            text = f"# Licence\n\n```text\n{text.strip()}\n```\n"
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: "Page", config: "MkDocsConfig", **_: Any) -> str:
    """Return the page with the links of the site."""
    name = page.file.src_uri
    folder = ROOT if name in ROOT_PAGES.values() else (DOCS / name).parent
    return rewritten(markdown, folder, Path(name).parent, config.extra.get("source", ""))


def rewritten(markdown: str, folder: Path, at: Path, source: str) -> str:
    """Return `markdown`, a page of `folder` that the site has in its folder `at`, with other links."""

    def link(found: re.Match[str]) -> str:
        image, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = Path(os.path.normpath(folder / target))
        name = _name_in_site(path)
        if name is not None:
            return f"{image}[{text}]({os.path.relpath(name, at)}{anchor})"
        if path.exists() and path.is_relative_to(ROOT):
            return f"[{text}]({source}/{path.relative_to(ROOT)})" if source else text
        return found[0]

    return "".join(
        part if index % 2 else LINK.sub(link, part) for index, part in enumerate(FENCE.split(markdown))
    )


def _name_in_site(path: Path) -> str | None:
    if path.is_relative_to(DOCS) and path.name not in LEFT_OUT:
        return str(path.relative_to(DOCS))
    if path.is_relative_to(ROOT):
        return ROOT_PAGES.get(str(path.relative_to(ROOT)))
    return None
