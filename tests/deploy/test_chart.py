"""The chart, where helm is: it lints, and its settings are a configuration."""

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from broker.common.version import VERSION
from broker.config.load import load
from broker.gateway.sharing.signing import read_keys
from tests.conventions.sources import ROOT

CHART: Final = ROOT / "deploy" / "helm" / "weir"
HELM: Final = shutil.which("helm") or ""
GATEWAY: Final = ("mode=gateway", "replicas=2", "upstream.bootstrapServers=kafka.example:9092")

needs_helm = pytest.mark.skipif(not HELM, reason="there is no helm")


def _helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`go install` builds a helm that believes in an old Kubernetes."""
    return subprocess.run([HELM, *arguments, "--kube-version=1.30.0"], capture_output=True, text=True)


def _template(*values: str) -> "subprocess.CompletedProcess[str]":
    return _helm("template", "weir", str(CHART), "--namespace=data", *(f"--set={value}" for value in values))


def _objects(*values: str) -> dict[str, Any]:
    done = _template(*values)
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_default_values_are_allowed() -> None:
    schema = CHART / "values.schema.json"
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--schemafile",
        str(schema),
        str(CHART / "values.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize("values", [(), GATEWAY, ("serviceMonitor.enabled=true", "settingsSecret=logins")])
def test_it_lints(values: tuple[str, ...]) -> None:
    done = _helm("lint", "--strict", str(CHART), *(f"--set={value}" for value in values))
    assert done.returncode == 0, done.stdout


@needs_helm
@pytest.mark.parametrize(("values", "command"), [((), "weir serve"), (GATEWAY, "weir gateway")])
def test_its_settings_are_a_configuration(tmp_path: Path, values: tuple[str, ...], command: str) -> None:
    objects = _objects(*values, "settings.num\\.io\\.threads=4")
    path = tmp_path / "server.properties"
    path.write_text(objects["ConfigMap"]["data"]["server.properties"], encoding="utf-8")
    configuration = load(path, ["node.id=1"], {})
    assert not [warning for warning in configuration.warnings if "unknown" in warning]
    assert configuration.static["advertised.listeners"] == "PLAINTEXT://weir.data.svc:9092"
    assert configuration.static["num.io.threads"] == "4"
    (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert command in container["args"][0]
    assert container["image"] == f"weir:{VERSION}"


@needs_helm
def test_a_broker_runs_as_the_images_user_without_privileges() -> None:
    pod = _objects()["StatefulSet"]["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (909, 909)
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/var/lib/weir", "/etc/weir/1", "/run/secrets/weir", "/run/weir"} == mounted


@needs_helm
def test_a_gateway_has_a_port_for_each_upstream_node() -> None:
    objects = _objects(*GATEWAY, "upstream.nodes=2")
    ports = [port["port"] for port in objects["Service"]["spec"]["ports"]]
    assert ports == [9092, 8080, 31_000, 31_001, 31_002]
    assert "gateway.port.range=31000-31002" in objects["ConfigMap"]["data"]["server.properties"]
    assert "quota.scope=cluster" in objects["ConfigMap"]["data"]["server.properties"]


KEY: Final = "weir-cluster-key"


@needs_helm
@pytest.mark.parametrize(
    ("values", "secret"),
    [
        ((), None),
        (("mode=gateway", "upstream.bootstrapServers=kafka.example:9092"), None),
        (GATEWAY, KEY),
        ((*GATEWAY, "replicas=1", "settings.quota\\.scope=cluster"), KEY),
        ((*GATEWAY, "settings.quota\\.scope=gateway"), None),
        ((*GATEWAY, "settings.gateway\\.cluster\\.protection=acl"), None),
        ((*GATEWAY, "clusterKeySecret=ours"), "ours"),
    ],
)
def test_gateways_that_share_rules_have_a_key(
    tmp_path: Path, values: tuple[str, ...], secret: str | None
) -> None:
    objects = _objects(*values)
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert ("Secret" in objects) is (secret == KEY)
    path = tmp_path / "server.properties"
    path.write_text(objects["ConfigMap"]["data"]["server.properties"], encoding="utf-8")
    config = load(path, ["node.id=1"], {}).config
    if secret is None:
        assert "cluster-key" not in volumes and not config.gateway.cluster_keys_location
        return
    config.gateway.check(config.upstream, config.quotas.scope)
    assert volumes["cluster-key"]["secret"]["secretName"] == secret
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert config.gateway.cluster_keys_location == f"{mounts['cluster-key']}/keys"
    if secret == KEY:
        made = objects["Secret"]
        assert made["metadata"]["name"] == KEY
        assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert len(read_keys("keys", base64.b64decode(made["data"]["keys"]).decode())) == 1


@needs_helm
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (("replicas=2",), "mode broker has one replica"),
        (("mode=gateway",), "mode gateway needs upstream.bootstrapServers"),
        (("mode=cluster",), "mode"),
        (("replica=2",), "replica"),
        (("replicas=0",), "replicas"),
        (("upstream.nodes=101", *GATEWAY), "nodes"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(values: tuple[str, ...], reason: str) -> None:
    done = _template(*values)
    assert done.returncode != 0 and reason in done.stderr


@needs_helm
@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ((), 120),
        (GATEWAY, 180),
        ((*GATEWAY, "settings.gateway\\.drain\\.timeout\\.ms=1000"), 121),
        ((*GATEWAY, "settings.gateway\\.drain\\.timeout\\.ms=300001"), 421),
    ],
)
def test_a_pod_may_take_as_long_as_its_drain(values: tuple[str, ...], seconds: int) -> None:
    pod = _objects(*values)["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == seconds
