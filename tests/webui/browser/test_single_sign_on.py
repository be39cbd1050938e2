"""Single sign-on with a real provider (oidc-provider, certified by the OpenID Foundation) and a real browser.

Needs Node and, once, `npm ci --prefix tests/webui/oidc_provider`.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.webui.browser.conftest import ServedConsole, account_menu, watched
from tests.webui.fakes import FakeBroker, console_config

PROVIDER = Path(__file__).parents[1] / "oidc_provider"
SECRET = "client secret of weir"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("node") is None or not (PROVIDER / "node_modules").is_dir(),
        reason="no provider: npm ci --prefix tests/webui/oidc_provider",
    ),
]


@pytest.fixture
def served(broker: FakeBroker) -> Iterator[ServedConsole]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = replace(
        console_config(),
        oidc_issuer=f"http://127.0.0.1:{port}",
        oidc_client_id="weir",
        oidc_client_secret=SECRET,
        oidc_admin_groups=("ops",),
        oidc_viewer_groups=("staff",),
    )
    with ServedConsole(broker, settings) as console:
        command = ["node", "provider.mjs", str(port), f"{console.pages}/oidc/callback"]
        with subprocess.Popen(command, cwd=PROVIDER, stdout=subprocess.PIPE, text=True) as provider:
            assert provider.stdout is not None
            while "ready" not in (line := provider.stdout.readline()):
                assert line, "the provider has ended"
            yield console
            provider.kill()


def log_in(page: Any, served: ServedConsole, name: str) -> None:
    page.goto(served.pages + "/")
    page.get_by_role("link", name="Log in by single sign-on").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_user_logs_in_with_a_role_and_logs_out_of_both(
    browser: Any, served: ServedConsole, expect: Any
) -> None:
    with watched(browser, served) as opened:
        page = opened.page
        log_in(page, served, "ann")
        expect(page.locator("summary .who-name")).to_have_text("oidc:ann")
        expect(page.locator(".who .quiet")).to_have_text("admin")
        opened.go("/access")
        page.keyboard.press("n")
        page.get_by_label("Name of the user or program").fill("ci")
        page.get_by_role("button", name="Create token").click()
        expect(page.locator(".copyable pre")).to_be_visible()
        account_menu(page).locator("#sign-out").click()
        page.get_by_role("button", name="Yes, sign me out").click()
        expect(page.get_by_role("link", name="Log in by single sign-on")).to_be_visible()
        opened.troubles.clear()


def test_another_user_only_looks(browser: Any, served: ServedConsole, expect: Any) -> None:
    with watched(browser, served) as opened:
        log_in(opened.page, served, "bob")
        expect(opened.page.locator(".who .quiet")).to_have_text("viewer")
        opened.troubles.clear()
