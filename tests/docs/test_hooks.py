"""Links of the pages: as the site has them, and as GitHub has them in the same files."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conventions.sources import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "written", "site"),
    [
        (ROOT, "[a](docs/quotas.md#pacing)", "[a](quotas.md#pacing)"),
        (ROOT, "![a](docs/images/quota-throttle.svg)", "![a](images/quota-throttle.svg)"),
        (ROOT, "[a](SECURITY.md)", "[a](reporting.md)"),
        (ROOT, "[a](LICENSE)", "[a](license.md)"),
        (DOCS, "[a](quotas.md)", "[a](quotas.md)"),
        (DOCS, "[a](../README.md#start-it)", "[a](index.md#start-it)"),
        (DOCS, "[`a.b`](../broker/server/app.py)", "`a.b`"),
        (DOCS, "[a](benchmarks-log.md#soak)", "a"),
        (DOCS, "[a](nowhere.md)", "[a](nowhere.md)"),
        (DOCS, "[a](../nowhere.py)", "[a](../nowhere.py)"),
        (DOCS, "[a](#here) [b](https://kafka.example/x)", "[a](#here) [b](https://kafka.example/x)"),
        (DOCS, "```\n[a](../broker/server/app.py)\n```", "```\n[a](../broker/server/app.py)\n```"),
        (DOCS, "[a](../README.md) and [b](../broker/server/app.py)", "[a](index.md) and b"),
    ],
)
def test_a_link_is_rewritten_for_the_site(hooks: Any, folder: Path, written: str, site: str) -> None:
    assert hooks.rewritten(written, folder, Path("."), "") == site


def test_sources_are_linked_where_a_browser_finds_them(hooks: Any) -> None:
    source = "https://git.example/weir/blob/main"
    assert (
        hooks.rewritten("[a](../broker/server/app.py)", DOCS, Path("."), source)
        == f"[a]({source}/broker/server/app.py)"
    )


def test_a_page_in_a_folder_of_the_site_reaches_those_above(hooks: Any) -> None:
    assert hooks.rewritten("[a](../quotas.md)", DOCS / "images", Path("images"), "") == "[a](../quotas.md)"


def test_the_site_has_every_page(hooks: Any) -> None:
    named = set(re.findall(r"[\w-]+\.md\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert named == {page.name for page in DOCS.glob("*.md")} | set(hooks.ROOT_PAGES.values())
