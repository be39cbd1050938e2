"""A broker whose console speaks TLS, from its start to the commands that ask it; and a start that must not
succeed, which leaves the first token to the next.
"""

import json
import os
import subprocess
import urllib.error
import urllib.request
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
        url = ""
        while not url.startswith("Console:"):
            url = process.stdout.readline()
            assert url, "the broker ended"
        address, _, token = url.removeprefix("Console:").strip().partition("/?token=")
        assert address.startswith("https://127.0.0.1:") and token
        ask_it(address, token)
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()  # type: ignore[union-attr]


def ask_it(address: str, token: str) -> None:
    known = certificates()
    request = urllib.request.Request(f"{address}/api/v1/tokens", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=known.client_context(), timeout=20) as response:
        assert json.load(response)["mine"] == "administrator"
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
        (("quotas", *ca, "list"), 0, "ENTITY"),
        (("quotas", "list"), 1, "certificate verify failed"),
        (("top", *ca, "--once"), 0, "weir 0."),
    ):
        done = subprocess.run(
            [WEIR, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status and words in done.stdout + done.stderr, done
