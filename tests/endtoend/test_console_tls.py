"""A broker whose console speaks TLS, from its start to the commands that ask it; and a start that must not
succeed, which leaves the first token to the next.
"""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.broker_process import WEIR
from tests.support.certificates import certificates

pytestmark = pytest.mark.endtoend


def command(directory: Path, keystore: str) -> list[str]:
    settings = [
        f"log.dirs={directory}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "console.listener=127.0.0.1:0",
        f"console.ssl.keystore.location={keystore}",
    ]
    return [str(WEIR), "serve", *(f"--override={setting}" for setting in settings)]


def test_a_console_over_tls_from_its_first_start(tmp_path: Path) -> None:
    known = certificates()
    refused = subprocess.run(command(tmp_path, "/nowhere.pem"), capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1 and refused.stdout == ""
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("weir: ")]
    assert "console.ssl.keystore.location='/nowhere.pem'" in line and "regular file" in line

    good = command(tmp_path, str(known.server.store))
    process = subprocess.Popen(good, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        link = ""
        while not link.startswith("Console:"):
            link = process.stdout.readline()
            assert link, "the broker ended"
        address, _, code = link.removeprefix("Console:").strip().partition("/?code=")
        assert address.startswith("https://127.0.0.1:") and code
        ask_it(address, token_by(address, code, console_link(tmp_path)))
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()  # type: ignore[union-attr]


def console_link(directory: Path) -> str:
    command = [str(WEIR), "console-link", f"--override=log.dirs={directory}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def token_by(address: str, code: str, another_link: str) -> str:
    """Logs in by the link of the start, and makes a token by showing the code of another one."""
    https = urllib.request.HTTPSHandler(context=certificates().client_context())
    browser = urllib.request.build_opener(https, urllib.request.HTTPCookieProcessor())
    with browser.open(f"{address}/?code={code}", timeout=20) as page:
        (csrf,) = re.findall(r'data-csrf="([\w-]+)"', page.read().decode())
    present = another_link.partition("?code=")[2]
    headers = {"X-CSRF-Token": csrf, "X-Present-Secret": b64encode(present.encode()).decode()}
    body = json.dumps({"name": "ops", "role": "admin"}).encode()
    request = urllib.request.Request(
        f"{address}/api/v1/tokens", body, headers | {"Content-Type": "application/json"}
    )
    with browser.open(request, timeout=20) as answer:
        return str(json.load(answer)["secret"])


def ask_it(address: str, token: str) -> None:
    known = certificates()
    request = urllib.request.Request(f"{address}/api/v1/tokens", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=known.client_context(), timeout=20) as response:
        assert json.load(response)["mine"] == "ops"
        assert response.headers["Strict-Transport-Security"]
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(request, timeout=20)
    plain = f"{address.replace('https', 'http')}/healthz"
    with pytest.raises(urllib.error.HTTPError, match="400") as caught:
        urllib.request.urlopen(plain, timeout=20)
    with caught.value as answer:
        assert b"https://" in answer.read()

    environment = os.environ | {"WEIR_TOKEN": token, "WEIR_CONSOLE": address}
    ca = ("--ca-file", str(known.authority.certificate))
    for arguments, status, words in (
        (("quotas", *ca, "list"), 0, "There is no quota."),
        (("quotas", "list"), 1, "certificate verify failed"),
        (("top", *ca, "--once"), 0, "weir 0."),
    ):
        done = subprocess.run(
            [WEIR, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status and words in done.stdout + done.stderr, done
