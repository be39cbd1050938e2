"""No text tells a reader to install PyPI's `weir`, another project; this one is `weir-broker`."""

import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from broker.common.version import VERSION
from tests.conventions.sources import ROOT
from tests.conventions.test_requirements import PROJECT

FOREIGN: Final = "weir"
OURS: Final = "weir-broker"
"""No public index has it, so every command that installs it by name must name an index."""

GAP: Final = r"(?:[^\S\n]|\\\n)+"
INSTALLER: Final = re.compile(
    rf"\b(?:uvx|pipx{GAP}run"
    rf"|(?:pip[\d.]*|pipx|uv|poetry|pdm|conda)(?:{GAP}(?:-\S+|pip|tool))*{GAP}(?:install|add|download|wheel|inject))\b"
)
TOKEN: Final = re.compile(GAP + r"""(\\?"[^"\n]*"|\\?'[^'\n]*'|[^\s`;&|#"'\\)]+)""")
END: Final = r"(?![\w-])"
EXACT: Final = re.compile(rf"{FOREIGN}{END}\s*(?:\[[^\]]*\])?\s*(?:[=<>~!@;].*)?", re.IGNORECASE)

ANYWHERE: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w./-]){FOREIGN}\[[a-z][\w., -]*\]",
        rf"(?<![\w./-]){FOREIGN}\s*(?:===?|~=|>=|<=|!=)\s*\d",
        rf"(?<![\w-]){FOREIGN}-[\d*][\w.*-]*\.(?:whl|tar\.gz)",
        rf"\b(?:version|requires|distribution|metadata|files)\(\s*[\"']{FOREIGN}[\"']",
        rf"\bpackage_name\s*=\s*[\"']{FOREIGN}[\"']",
        rf"://[^/\s]+/(?:project|simple|pypi)/{FOREIGN}{END}",
    )
)
REQUIREMENT_LINE: Final = re.compile(rf"^{FOREIGN}{END}\s*(?:[;@\\].*|--.*)?$", re.IGNORECASE | re.MULTILINE)
ARGUMENTS: Final = re.compile(r"""["'],[^\S\n]*["']""")
ONE_INDEX: Final = ("--index-url", "-i", "--default-index", "--no-index")


def _texts() -> Iterator[tuple[str, str]]:
    """Yield the path and text of every text file that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode("utf-8", "replace")


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the start of each install command and its arguments without quotes."""
    for found in INSTALLER.finditer(text):
        tokens, at = found[0].split(), found.end()
        while token := TOKEN.match(text, at):
            tokens.append(token[1].strip("\\\"'"))
            at = token.end()
        yield found.start(), tokens


def foreign(text: str, *, is_requirements: bool = False) -> list[str]:
    """Return the lines that name PyPI's project as a package to install or to look up."""
    found = {hit.start() for pattern in ANYWHERE for hit in pattern.finditer(text)}
    if is_requirements:
        found |= {hit.start() for hit in REQUIREMENT_LINE.finditer(text)}
    lines = [_line(text, at) for at in sorted(found)]
    # As a list of arguments: ["pip", "install", "..."].
    for each in (text, ARGUMENTS.sub(" ", text)):
        for at, tokens in _commands(each):
            if any(EXACT.fullmatch(token) for token in tokens):
                lines.append(_line(each, at))
    return lines


def without_index(text: str) -> list[str]:
    """Return the lines that install the distribution by name without naming one index."""
    named = re.compile(rf"{OURS}{END}.*", re.IGNORECASE)
    return [
        _line(text, at)
        for at, tokens in _commands(text)
        if any(named.fullmatch(token) for token in tokens)
        and ("--extra-index-url" in tokens or not any(token.split("=")[0] in ONE_INDEX for token in tokens))
    ]


def _line(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0]


def test_the_distribution_has_its_own_name() -> None:
    assert PROJECT["project"]["name"] == OURS
    assert PROJECT["project"]["scripts"] == {"weir": "weir.__main__:main"}


def test_the_installed_version_is_the_brokers() -> None:
    assert version(OURS) == PROJECT["project"]["version"] == VERSION


def test_no_text_installs_the_other_project() -> None:
    found = {
        name: lines
        for name, text in _texts()
        if (lines := foreign(text, is_requirements=name.startswith("requirements/")))
    }
    assert found == {}


def test_every_install_command_by_name_names_an_index() -> None:
    found = {name: lines for name, text in _texts() if (lines := without_index(text))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        f"$ pip install {FOREIGN}",
        f"pip install '{FOREIGN}[pipeline]'",
        f'"install": "pip install \'{FOREIGN}[insights]\'"',
        f'print("pip install \\"{FOREIGN}[insights]\\"")',
        f"uv pip install {FOREIGN}",
        f"uv add {FOREIGN}",
        f"pipx install {FOREIGN}",
        f"uvx {FOREIGN} serve",
        f"python3 -m pip install --upgrade {FOREIGN}",
        f"pip3 install \\\n    --quiet {FOREIGN.upper()}",
        f"pip install trio {FOREIGN}; echo",
        f"`pip install {FOREIGN}` is what",
        f"pip install '{FOREIGN} >= 0.1'",
        f"pip install {FOREIGN}@https://weir.example",
        f'["pip", "install", "{FOREIGN}"]',
        f"{FOREIGN}==0.1",
        f"    {FOREIGN} >= 1",
        f"needs {FOREIGN}[pipeline] and Java",
        f'version("{FOREIGN}")',
        f'package_name="{FOREIGN}"',
        f"https://index.example/project/{FOREIGN}/",
        f"pip install dist/{FOREIGN}-0.1.0-py3-none-any.whl",
        f"dist/{FOREIGN}-*.whl",
    ],
)
def test_a_text_that_installs_the_other_project_is_found(text: str) -> None:
    assert foreign(text) != []


@pytest.mark.parametrize(
    "text",
    [
        f"pip install --index-url https://index.example/simple {OURS}",
        f"pip install '{OURS}[pipeline]'",
        f"{OURS}==0.1",
        "pip install '.[pipeline]'  # then weir",
        "pip install . && weir serve",
        "`pip install .`, and `weir serve` starts it",
        "/opt/weir/bin/pip install --no-index dist/weir_broker-*.whl",
        "pip install 'dist/weir_broker-0.1.0-py3-none-any.whl[pipeline]'",
        "docker run -v weir-data:/var/lib/weir weir",
        "weir == other",
        "cookies['weir-8080']",
        "pip install weirdness",
    ],
)
def test_a_text_that_installs_this_project_is_not_found(text: str) -> None:
    assert foreign(text) == []


@pytest.mark.parametrize("line", [FOREIGN, f"{FOREIGN} ; os_name == 'nt'", f"{FOREIGN} --hash=sha256:00"])
def test_a_line_of_a_requirements_file_is_found(line: str) -> None:
    assert foreign(f"trio==1\n{line}\n", is_requirements=True) == [line]
    assert foreign(f"trio==1\n{OURS}\nweirdness\n", is_requirements=True) == []


@pytest.mark.parametrize(
    ("command", "is_bad"),
    [
        (f"pip install {OURS}", True),
        (f"pip install '{OURS}[pipeline]'", True),
        (f"pip install --extra-index-url https://index.example/simple {OURS}", True),
        (f"pip install --index-url https://index.example/simple {OURS}", False),
        (f"pip install --index-url=https://index.example/simple '{OURS}[pipeline]'", False),
        (f"pip install --no-index --find-links dist {OURS}", False),
        ("pip install .", False),
    ],
)
def test_only_a_command_with_one_index_is_accepted(command: str, is_bad: bool) -> None:
    assert bool(without_index(command)) is is_bad


def test_every_kind_of_file_is_searched() -> None:
    names = {Path(name).suffix or name for name, _ in _texts()}
    assert {".py", ".md", ".js", ".html", ".toml", ".txt", "Dockerfile", "Makefile", ".ci/run"} <= names
