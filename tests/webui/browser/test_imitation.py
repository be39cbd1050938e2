"""The benchmark's browsers ask for what Chromium asks for."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from benchmarks.pages import PAGES, PageLoad
from tests.webui.browser.conftest import Watched


@pytest.mark.parametrize("load", PAGES, ids=lambda load: load.path)
def test_a_page_is_imitated_to_the_letter(page: Watched, load: PageLoad, expect: Any) -> None:
    page.sign_in()
    calls: list[str] = []
    page.page.on("request", lambda request: calls.append(request.url.removeprefix(page.console.pages)))
    page.go(load.path)
    api = [target for target in calls if target.startswith("/api/")]
    streams = [target for target in api if target.startswith("/api/v1/events")]
    [stream] = [parse_qs(urlsplit(target).query, keep_blank_values=True) for target in streams]
    assert stream == {name: [value] for name, value in load.stream.items()}
    assert [target for target in api if target not in streams] == list(load.asks)
