"""The chart, where helm is: it lints, and its settings are a configuration."""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from broker.common.version import VERSION
from broker.config.listeners import SecurityProtocol
from broker.config.load import Configuration, load
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


def _all(*values: str) -> list[Any]:
    done = _template(*values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def _objects(*values: str) -> dict[str, Any]:
    return {each["kind"]: each for each in _all(*values)}


def _config(tmp_path: Path, objects: dict[str, Any]) -> Configuration:
    path = tmp_path / "server.properties"
    path.write_text(objects["ConfigMap"]["data"]["server.properties"], encoding="utf-8")
    configuration = load(path, ["node.id=1"], {})
    assert not [warning for warning in configuration.warnings if "unknown" in warning]
    return configuration


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
    configuration = _config(tmp_path, objects)
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
    config = _config(tmp_path, objects).config
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


SNI: Final = (
    *GATEWAY,
    "advertisedHost=kafka.example",
    "tls.secret=certificate",
    "tls.sniPattern=broker-$(nodeId).kafka.example",
)
ROUTED: Final = (
    *SNI,
    "tlsRoute.enabled=true",
    "tlsRoute.port=443",
    "tlsRoute.parentRefs[0].name=public",
    "tlsRoute.parentRefs[0].namespace=edge",
    "tlsRoute.parentRefs[0].sectionName=kafka",
)
MOST_NAMES: Final = 16
"""Of a TLSRoute in Gateway API 1.5."""

TLS_ROUTES: Final = ROOT / ".cache" / "gateway-api" / "tlsroutes.yaml"
"""The definition of TLSRoute, where .ci/run has put it."""


def _volumes(objects: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The secrets of the pod and where they are mounted."""
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    return {
        each["name"]: (mounts[each["name"]], each["secret"]) for each in pod["volumes"] if "secret" in each
    }


@needs_helm
def test_certificates_of_secrets_are_mounted_where_the_settings_say(tmp_path: Path) -> None:
    objects = _objects(*SNI, "upstream.caSecret=kafka-ca")
    configuration, volumes = _config(tmp_path, objects), _volumes(objects)
    (listener,) = configuration.config.network.resolved_listeners()
    assert (listener.protocol, listener.port, listener.advertised_port) == (SecurityProtocol.SSL, 9092, 9092)
    at, secret = volumes["tls"]
    assert secret == {"secretName": "certificate", "defaultMode": 0o440}
    assert configuration.config.tls.of(listener).keystore_location == f"{at}/tls.key"
    at, secret = volumes["upstream-ca"]
    assert secret["secretName"] == "kafka-ca"
    upstream = configuration.config.upstream
    assert upstream.security_protocol is SecurityProtocol.SSL
    assert upstream.ssl_truststore_location == f"{at}/{secret['items'][0]['path']}"


@needs_helm
def test_nodes_with_names_share_the_port_of_the_listener(tmp_path: Path) -> None:
    objects = _objects(*SNI)
    gateway = _config(tmp_path, objects).config.gateway
    assert (gateway.sni_pattern, gateway.port_range) == ("broker-$(nodeId).kafka.example", None)
    assert [port["port"] for port in objects["Service"]["spec"]["ports"]] == [9092, 8080]


def _routes(*values: str) -> list[Any]:
    return [each for each in _all(*values) if each["kind"] == "TLSRoute"]


@needs_helm
@pytest.mark.parametrize("nodes", [1, MOST_NAMES - 3, MOST_NAMES - 2, MOST_NAMES - 1, 100])
def test_routes_lead_every_name_to_the_service(tmp_path: Path, nodes: int) -> None:
    routes = _routes(*ROUTED, f"upstream.nodes={nodes}")
    names = [name for route in routes for name in route["spec"]["hostnames"]]
    assert names == ["kafka.example", *(f"broker-{node}.kafka.example" for node in range(nodes + 1))]
    assert len(routes) == -(-len(names) // MOST_NAMES)
    assert len({route["metadata"]["name"] for route in routes}) == len(routes)
    objects = _objects(*ROUTED)
    for route in routes:
        assert (route["apiVersion"], len(route["spec"]["hostnames"]) <= MOST_NAMES) == (
            "gateway.networking.k8s.io/v1",
            True,
        )
        assert route["spec"]["parentRefs"] == [
            {"name": "public", "namespace": "edge", "sectionName": "kafka"}
        ]
        (rule,) = route["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        assert backend["name"] == objects["Service"]["metadata"]["name"]
        assert backend["port"] in [port["port"] for port in objects["Service"]["spec"]["ports"]]
    (listener,) = _config(tmp_path, objects).config.network.resolved_listeners()
    assert (listener.port, listener.advertised_host, listener.advertised_port) == (9092, "kafka.example", 443)


def _strict(schema: Any) -> Any:
    """Return a schema of Kubernetes' in which no other field is allowed: the server drops those silently."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(each) for key, each in schema.items() if not key.startswith("x-kubernetes-")}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@needs_helm
@pytest.mark.skipif(not TLS_ROUTES.exists(), reason="there is no definition of TLSRoute; .ci/run fetches it")
@pytest.mark.parametrize("nodes", [1, 3, 100])
def test_routes_are_what_the_gateway_api_takes(tmp_path: Path, nodes: int) -> None:
    definition = yaml.safe_load(TLS_ROUTES.read_text(encoding="utf-8"))
    (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
    assert version["served"] and definition["spec"]["group"] == "gateway.networking.k8s.io"
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(_strict(version["schema"]["openAPIV3Schema"])), encoding="utf-8")
    files = []
    for number, route in enumerate(_routes(*ROUTED, f"upstream.nodes={nodes}")):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(route), encoding="utf-8")
    assert _check(schema, *files).returncode == 0, _check(schema, *files).stdout
    broken = json.loads(files[0].read_text(encoding="utf-8"))
    broken["spec"]["hostnames"] *= 20
    broken["spec"]["rules"][0]["backendRefs"][0]["ports"] = 1
    files[0].write_text(json.dumps(broken), encoding="utf-8")
    refused = _check(schema, files[0]).stdout
    assert "is too long" in refused and "ports" in refused


def _check(schema: Path, *files: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)


VALUES: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEPLOYMENT: Final = ROOT / "docs" / "deployment.md"


@needs_helm
@pytest.mark.parametrize("values", VALUES.findall(DEPLOYMENT.read_text(encoding="utf-8")))
def test_the_documented_values_are_a_configuration(tmp_path: Path, values: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(values, encoding="utf-8")
    done = _helm("template", "weir", str(CHART), f"--values={file}")
    assert done.returncode == 0, done.stderr
    objects = {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}
    config = _config(tmp_path, objects).config
    config.network.check()
    given = yaml.safe_load(values)
    assert config.gateway.sni_pattern == given.get("tls", {}).get("sniPattern", "")
    assert ("TLSRoute" in objects) is ("tlsRoute" in given)
    assert len(config.gateway.client_racks) == 2 * ("settings" in given)
    assert config.network.proxy_protocol == given.get("proxyProtocol", {"mode": "none"})["mode"]


@needs_helm
def test_a_console_with_tls_is_asked_with_tls() -> None:
    key = "settings.console\\.ssl\\.keystore\\.location=/run/secrets/weir-tls/tls.key"
    for values, scheme in (((), "HTTP"), ((key,), "HTTPS")):
        objects = _objects("tls.secret=certificate", "serviceMonitor.enabled=true", *values)
        (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        probes = [
            container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")
        ]
        assert probes == [scheme] * 3
        assert objects["ServiceMonitor"]["spec"]["endpoints"][0]["scheme"] == scheme.lower()


@needs_helm
@pytest.mark.parametrize("mode", ["accept", "require"])
def test_a_balancer_that_names_clients_is_trusted(tmp_path: Path, mode: str) -> None:
    values = (f"proxyProtocol.mode={mode}", "proxyProtocol.trustedAddresses={10.0.0.0/24,2001:db8::/32}")
    network = _config(tmp_path, _objects(*values)).config.network
    network.check()
    assert network.proxy_protocol == mode
    assert [str(each) for each in network.proxy_protocol_trusted_addresses] == [
        "10.0.0.0/24",
        "2001:db8::/32",
    ]
    assert "proxy.protocol" not in _objects()["ConfigMap"]["data"]["server.properties"]


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
        (("tls.sniPattern=broker-$(nodeId).kafka.example", *GATEWAY), "tls.sniPattern is for mode gateway"),
        (
            ("tls.sniPattern=broker-$(nodeId).kafka.example", "tls.secret=a"),
            "tls.sniPattern is for mode gateway",
        ),
        (("tls.sniPattern=broker.kafka.example", "tls.secret=a", *GATEWAY), "sniPattern"),
        (("tls.sniPattern=Broker-$(nodeId).example", "tls.secret=a", *GATEWAY), "sniPattern"),
        (("upstream.caSecret=a",), "upstream.caSecret is for mode gateway"),
        (("tlsRoute.enabled=true", *GATEWAY), "tlsRoute needs tls.sniPattern"),
        ((*SNI, "tlsRoute.enabled=true"), "tlsRoute needs tls.sniPattern"),
        ((*ROUTED, "advertisedHost="), "tlsRoute needs tls.sniPattern"),
        ((*ROUTED, "advertisedHost=192.0.2.1"), "advertisedHost must not be an address"),
        (
            (
                *ROUTED,
                "tlsRoute.parentRefs[1].name=public",
                "tlsRoute.parentRefs[1].namespace=edge",
                "tlsRoute.parentRefs[1].sectionName=kafka",
            ),
            "tlsRoute/parentRefs",
        ),
        ((*ROUTED, "tlsRoute.parentRefs[0].name="), "name"),
        ((*ROUTED, "tlsRoute.port=65536"), "port"),
        (("proxyProtocol.mode=accept",), "needs proxyProtocol.trustedAddresses"),
        (("proxyProtocol.mode=yes",), "mode"),
        (("proxyProtocol.trustedAddresses={balancer}",), "trustedAddresses"),
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
