"""A Python client generated from the OpenAPI document drives a running broker, as a tool of infrastructure
would.

The generator is openapi-python-client, run as its users run it. It must take every operation without a
warning. It knows no YAML, so the bodies that files may have in YAML are described to it as JSON only.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import TOKEN, BrokerProcess
from webui.rest.files import YAML
from webui.rest.routes import ROUTES

pytestmark = pytest.mark.endtoend

NAME = "weir_client"
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def generate(document: Any, folder: Path) -> str:
    """Return what the generator says; the package is `folder`/weir_client."""
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.get("requestBody", {}).get("content", {}).pop(YAML, None)
    (folder / "openapi.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "config.yaml").write_text("post_hooks: []\n", encoding="utf-8")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", "openapi.json", "--config", "config.yaml", "--output-path", NAME]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


class Generated:
    """The functions of the generated package, by operation."""

    def __init__(self, broker: BrokerProcess) -> None:
        package = importlib.import_module(NAME)
        self.models: Any = importlib.import_module(f"{NAME}.models")
        self.client = package.AuthenticatedClient(base_url=f"http://{broker.console}", token=TOKEN)
        self._tags = {route.operation: route.tag for route in ROUTES}

    def __call__(self, operation: str, /, *path: str, **given: Any) -> Any:
        words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation)
        tag = self._tags[operation].replace("-", "_")
        module = importlib.import_module(f"{NAME}.api.{tag}.{words}")
        return module.sync_detailed(*path, client=self.client, **given)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", AUTHORIZER) as running:
        yield running


def test_a_generated_client_lists_pages_creates_and_removes(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = generate(broker.ask("GET", "/api/v1/openapi.json"), tmp_path)
    assert "warning" not in said.lower() and "unable" not in said.lower(), said
    monkeypatch.syspath_prepend(tmp_path)
    ask = Generated(broker)
    with ask.client:
        use(ask)
        use_acls(ask)


def use(ask: Generated) -> None:
    body = ask.models.WantedClientQuota.from_dict({"limits": {"producer_byte_rate": 1_000}})
    made = ask("setClientQuota", "user=u0", body=body)
    assert (
        made.status_code == HTTPStatus.CREATED and made.headers["Location"] == "/api/v1/client-quotas/user=u0"
    )
    again = ask("setClientQuota", "user=u0", body=body)
    assert again.status_code == HTTPStatus.OK and again.parsed.current.version == made.parsed.current.version
    for number in range(1, 5):
        ask("setClientQuota", f"user=u{number}", body=body)

    found, cursor = [], {}
    while True:
        page = ask("listClientQuotas", limit=2, **cursor).parsed
        found += [rule.id for rule in page.items]
        if page.next_ is None:
            break
        cursor = {"cursor": page.next_}
    assert found == [f"user=u{number}" for number in range(5)]

    read = ask("getClientQuota", "user=u3")
    assert read.parsed.limits.producer_byte_rate.value == 1_000
    stale = ask("removeClientQuota", "user=u3", if_match='"1"')
    assert stale.status_code == HTTPStatus.PRECONDITION_FAILED
    gone = ask("removeClientQuota", "user=u3", if_match=read.headers["ETag"])
    assert gone.status_code == HTTPStatus.NO_CONTENT and gone.content == b""
    missing = ask("getClientQuota", "user=u3")
    assert missing.status_code == HTTPStatus.NOT_FOUND

    token = ask.models.IssueTokenBody.from_dict({"name": "ci", "role": "viewer"})
    assert ask("issueToken", body=token).status_code == HTTPStatus.CREATED
    taken = ask("issueToken", body=token)
    assert taken.status_code == HTTPStatus.CONFLICT
    assert taken.parsed.type_ == "urn:weir:problem:already-exists"
    assert ask("revokeToken", "ci").status_code == HTTPStatus.NO_CONTENT


def use_acls(ask: Generated) -> None:
    """Each change is in the decisions at once, and in the audit trail."""

    def decision() -> Any:
        return ask("resolveAcl", principal="User:alice", operation=read, resource_type=topic, name="orders")

    read, topic = ask.models.ResolveAclOperation.READ, ask.models.ResolveAclResourceType.TOPIC
    assert decision().parsed.allowed is False
    fields = {"resource_type": "TOPIC", "name": "ord", "pattern_type": "PREFIXED", "operation": "READ"}
    body = ask.models.WantedAcl.from_dict({**fields, "principal": "User:alice", "permission": "ALLOW"})
    made = ask("createAcl", body=body)
    assert made.status_code == HTTPStatus.CREATED
    path = f"/api/v1/acls/{made.parsed.id}"
    assert made.headers["Location"] == path
    assert decision().parsed.allowed is True and decision().parsed.acl.id == made.parsed.id
    taken = ask("createAcl", body=body)
    assert taken.status_code == HTTPStatus.CONFLICT
    page = ask("listAcls", principal="User:alice", limit=1).parsed
    assert [acl.id for acl in page.items] == [made.parsed.id] and page.next_ is None
    assert ask("deleteAcl", made.parsed.id).status_code == HTTPStatus.NO_CONTENT
    assert decision().parsed.allowed is False
    rows = json.loads(ask("listChanges", kind=ask.models.ListChangesKind.ACL).content)["items"]
    assert [(row["key"], row["old"], row["new"]) for row in rows] == [
        ("ALLOW", "true", None),
        ("ALLOW", None, "true"),
    ]
