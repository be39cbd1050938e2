"""What the documents name exists: routes of the REST API, metrics, settings, and modules that are run."""

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from broker.config.group_settings import GROUP_SETTINGS
from broker.config.sections.topics import TOPIC_SETTINGS
from broker.config.table import SETTINGS
from broker.config.unknown_keys import why_without_effect
from tests.conventions.sources import ROOT
from tests.conventions.test_documents import DOCUMENTS
from webui.rest.routes import ROUTES
from webui.rest.routing import BASE, Route
from webui.schema import Invalid

DOCS: Final = ROOT / "docs"

# The log tells of settings and metrics as they were.
PAGES: Final = [document for document in DOCUMENTS if document.name != "benchmarks-log.md"]

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)

CURL: Final = re.compile(r"^(?:    |\$ )(curl (?:.*\\\n)*.*)", re.MULTILINE)
QUOTED: Final = re.compile(r"'[^']*'")
REQUEST: Final = re.compile(
    r"(?:\b(GET|PUT|POST|PATCH|DELETE) )?`(?:(GET|PUT|POST|PATCH|DELETE) )?(/[a-z][^`\s]*)`"
)
FOLDERS: Final = ("/var/", "/opt/", "/usr/", "/tmp/", "/etc/", "/proc/", BASE + "`")
OF_OTHERS: Final = frozenset({"/api/v1", "/api/v2/alerts", "/login"})
"""The base itself, an Alertmanager's, and a page."""


def _commands(text: str) -> Iterator[str]:
    """Yield the curl commands of a page, with the whole of a quoted body of several lines."""
    for found in CURL.finditer(text):
        command = found[1]
        rest = text[found.end() :]
        while command.count("'") % 2:
            line, _, rest = rest.removeprefix("\n").partition("\n")
            command += f"\n{line}"
        yield command.replace("\\\n", " ")


CURLS: Final = [
    (page.name, command) for page in PAGES for command in _commands(page.read_text(encoding="utf-8"))
]


def _route(method: str, path: str) -> Route | None:
    for route in ROUTES:
        pattern = re.sub(r"\\\{[a-z_]+\\\}", "[^/:]+", re.escape(route.path))
        if route.method == method and re.fullmatch(pattern, path):
            return route
    return None


def _asked(command: str) -> tuple[str, str, str, str | None]:
    """Return the method, the path, the query and the body."""
    words = shlex.split(command)
    at = {option: words[words.index(option) + 1] for option in ("-X", "-d") if option in words}
    url = next(word for word in words if word.startswith(("http://", "https://")))
    path, _, query = re.sub(r"^https?://[^/]+", "", url).partition("?")
    method = at.get("-X", "POST" if "-d" in at or "--data-binary" in words else "GET")
    return method, path, query, at.get("-d")


def test_the_documents_have_requests() -> None:
    assert len(CURLS) > 12


@pytest.mark.parametrize(("page", "command"), CURLS, ids=lambda value: str(value)[:60])
def test_a_documented_request_is_one_that_a_route_takes(page: str, command: str) -> None:
    method, path, query, body = _asked(command)
    route = _route(method, path)
    assert route is not None, f"{page}: {method} {path}"
    parameters = {each.partition("=")[0] for each in query.split("&") if each}
    assert parameters <= {each.name for each in route.query}, page
    if body is not None:
        assert route.body is not None
        _check(route, json.loads(body), page)


def _check(route: Route, body: Any, page: str) -> None:
    assert route.body is not None
    try:
        route.body.check(body, "")
    except Invalid as invalid:
        pytest.fail(f"{page}: {route.operation}: {invalid}")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/no-such"), ("PUT", "/api/v1/overview"), ("GET", "/api/v1/audit/1/2")],
)
def test_a_request_that_no_route_takes_is_found(method: str, path: str) -> None:
    assert _route(method, path) is None


@every_page
def test_every_named_path_of_the_api_has_a_route(page: Path) -> None:
    missing = []
    for before, within, path in REQUEST.findall(page.read_text(encoding="utf-8")):
        bare = path.partition("?")[0]
        if bare in OF_OTHERS or path.startswith(FOLDERS):
            continue
        full = bare if bare.startswith((BASE, "/metrics", "/healthz", "/readyz")) else BASE + bare
        methods = [before or within] if before or within else ["GET", "PUT", "POST", "PATCH", "DELETE"]
        if not any(_route(method, re.sub(r"\{[a-z_]+\}", "x", full)) for method in methods):
            missing.append(f"{before or within} {path}")
    assert missing == []


METRIC: Final = re.compile(r"(?<![\w.])((?:kafka|weir)_[a-z0-9]+_[a-z0-9_{},]*[a-z0-9}])")
ROW: Final = re.compile(r"^\| `((?:kafka|weir)_[^`]+)` \|", re.MULTILINE)
RENAMED: Final = "kafka_server_quota"
"""What jmx_exporter's example rules make of Kafka's names."""


def _expanded(pattern: str) -> list[str]:
    """Return the names of `a_{b,c}`: a_b and a_c."""
    pieces = re.split(r"\{([^}]*)\}", pattern)
    choices = [piece.split(",") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*choices)]


@cache
def _metrics() -> frozenset[str]:
    """Return the names of the tables, which tests compare with a running broker, and those that only some
    brokers have, as the sources name them.
    """
    names = set()
    for page in ("metrics.md", "gateway.md"):
        for pattern in ROW.findall((DOCS / page).read_text(encoding="utf-8")):
            names.update(_expanded(pattern))
    for source in (ROOT / "broker").rglob("*.py"):
        names.update(re.findall(r'"((?:kafka|weir)_[a-z0-9_]+)"', source.read_text(encoding="utf-8")))
    prefix = "kafka_server_kafkarequesthandlerpool_"
    names.update(f"{prefix}{plane}requesthandleravgidle_percent" for plane in ("controller", "controlplane"))
    return frozenset(names)


@every_page
def test_every_named_metric_exists(page: Path) -> None:
    """A name may be the beginning of several, or have its labels in braces."""
    unknown = []
    for found in METRIC.finditer(page.read_text(encoding="utf-8")):
        for name in (found[1].partition("{")[0].rstrip("_"), *_expanded(found[1])):
            if any(known == name or known.startswith(name + "_") for known in _metrics()):
                break
        else:
            if not found[1].startswith(RENAMED):
                unknown.append(found[1])
    assert unknown == []


SETTING: Final = re.compile(
    r"^(?:--override |--add-config |--config )?\'?([a-z][a-z0-9]*(?:\.(?:[a-z0-9_-]+|<\w+>))+)(?:=.*)?$",
    re.DOTALL,
)
OF_LISTENER: Final = re.compile(
    r"^listener\.name\.(?:<\w+>|[\w-]+)\.(?:(?:plain|oauthbearer|gssapi|scram-sha-\d+)\.(?=sasl|connections))?"
)
"""With the prefix of a mechanism where its setting is not that of the whole listener."""

PROPERTIES: Final = re.compile(r"```properties\n(.*?)```", re.DOTALL)
OPTION: Final = re.compile(r"--(?:override|add-config|config)[ =]\'?([a-z][\w.-]+)=")

OF_CLIENTS: Final = frozenset(
    (
        "auto.offset.reset",
        "batch.size",
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "linger.ms",
        "max.poll.interval.ms",
        "max.request.size",
        "metadata.cluster.check.enable",
        "metadata.recovery.strategy",
        "request.timeout.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.oauthbearer.method",
        "security.protocol",
        "ssl.ca.location",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "transactional.id",
        "delivery.timeout.ms",
        "reconnect.backoff.ms",
    )
)
"""Settings of Kafka's clients."""

OF_TOOLS: Final = frozenset(
    ("sasl.jaas.config", "interval.ms", "metrics", "match", "connection_creation_rate")
)
"""With a listener's prefix before it, of subscriptions, of addresses."""

OTHER_NAMES: Final = frozenset(
    name
    for names in re.findall(
        r"^- also: (.*)$", (DOCS / "configuration.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    for name in re.findall(r"`([^`]+)`", names)
)
"""Kafka's other names of settings, in other units."""

NO_KEYS: Final = frozenset(
    (
        "connection.creation.rate.limit",
        "connection.creation.rate.window.ms",
        "queued.max.connections",
        "queued.max.request.size",
        "queued.max.bytes",
        "unstable.api.versions.enable",
    )
)
"""What some texts take for keys, and one of Kafka's that the page says is missing."""

OF_CALLBACKS: Final = ("quota.group.", "quota.exempt.users", "statsd.prefix")
"""Keys of the examples."""

NO_SETTINGS: Final = re.compile(
    r"(.*\.(py|md|yaml|yml|toml|json|properties|metadata|ipynb|sh|jsonl|sqlite|txt|pem|log|set)$)"
    r"|(broker|webui|pipeline|demo|api|network|gc|copy|module|channel|quotas|rate|spark|org|net|service|weir)\."
    r"|kafka\.(authorizer|request)\.logger$|(group|share|transaction|metadata|kraft|streams)\.version$"
    r"|upstream\.(nodes|firstPort|bootstrapServers)$|tls\.secret$|tls\.key$|(tls|ca)\.crt$"
)
"""Files, also of Kubernetes' secrets, modules, settings of Spark, of the kernel and of the chart, loggers,
features.
"""


def _is_setting(key: str) -> bool:
    key = OF_LISTENER.sub("", key)
    return (
        key in SETTINGS
        or key in GROUP_SETTINGS
        or key in TOPIC_SETTINGS
        or key in OF_CLIENTS | OF_TOOLS | NO_KEYS | OTHER_NAMES
        or key.startswith(OF_CALLBACKS)
        or why_without_effect(key) is not None
        or any(known.startswith(f"{key}.") for known in SETTINGS)
    )


@every_page
def test_every_named_setting_exists(page: Path) -> None:
    text = re.sub(r"\[`[^`]+`\]\([^)]+\.py\)", "", page.read_text(encoding="utf-8"))
    named = {found[1] for part in re.findall(r"`([^`\n]+)`", text) if (found := SETTING.match(part))}
    for block in PROPERTIES.findall(text):
        named.update(re.findall(r"^([a-z][\w.-]*)=", block, re.MULTILINE))
    named.update(key for key in OPTION.findall(text) if key != "key")
    named = {key for key in named if not NO_SETTINGS.match(key)}
    assert sorted(key for key in named if not _is_setting(key)) == []


@every_page
def test_every_module_that_is_run_exists(page: Path) -> None:
    ours = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    run = set(re.findall(r"python3? -m ([\w.]+)", page.read_text(encoding="utf-8")))
    assert [name for name in run if name.partition(".")[0] in ours and find_spec(name) is None] == []


@pytest.mark.parametrize(
    "key", ["event.topics.partitions", "listener.name", "quota.windows.num", "retention.bits"]
)
def test_a_setting_that_does_not_exist_is_found(key: str) -> None:
    assert not _is_setting(key)


EVENT: Final = re.compile(r"^\| (`.+?) \| [A-Z]+", re.MULTILINE)
PLACEHOLDER: Final = re.compile(r"\.\.\.|\b[NM]\b|\w+=\S*|/ADDRESS|\bre-|[:;\"(),]")


@cache
def _written() -> str:
    """Return the sources with each text in one piece."""
    texts = (source.read_text(encoding="utf-8") for source in (ROOT / "broker").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


def test_every_line_of_the_log_is_one_that_the_broker_writes() -> None:
    """The table of operations.md; what is put into a line stands between two pieces of it."""
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    rows = EVENT.findall(text.partition("### Events\n")[2].partition("\n## ")[0])
    assert len(rows) > 20
    lines = [line for row in rows for line in re.findall(r"`([^`]+)`", row)]
    pieces = [(line, piece.split()) for line in lines for piece in PLACEHOLDER.split(line)]
    missing = {line for line, words in pieces if len(words) > 1 and " ".join(words[-2:]) not in _written()}
    assert missing == set()
