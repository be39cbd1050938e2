"""A reader of the Prometheus text format that lets nothing pass which the format does not allow.

Knows no broker. Stricter than Prometheus itself: HELP and TYPE come once, in this order, before the family's
samples, which stand together; no series comes twice; a summary has what a summary has.
"""

import re
from dataclasses import dataclass, field
from typing import Final

NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL: Final = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE: Final = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (NaN|[+-]Inf|-?[0-9.e+-]+)")
SUFFIXES: Final = {"summary": ("", "_sum", "_count"), "counter": ("",), "gauge": ("",)}

Labels = frozenset[tuple[str, str]]


@dataclass
class Family:
    help: str
    kind: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, suffix: str = "", **labels: str) -> float:
        """Of the one series with exactly these labels."""
        return self.samples[suffix, frozenset(labels.items())]

    def label_names(self) -> set[str]:
        return {name for _, labels in self.samples for name, _ in labels}


def parse(page: str) -> dict[str, Family]:
    """The families by name. ValueError with the line that is wrong."""
    assert page.endswith("\n")
    families: dict[str, Family] = {}
    name, about = "", None
    for line in page[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, about = line.removeprefix("# HELP ").partition(" ")
            if name in families or not re.fullmatch(NAME, name) or not about:
                raise ValueError(line)
        elif line.startswith("# TYPE "):
            kind = line.removeprefix(f"# TYPE {name} ")
            if about is None or kind not in SUFFIXES:
                raise ValueError(line)
            families[name], about = Family(about, kind), None
        else:
            _add_sample(line, name, families)
    if about is not None:
        raise ValueError(f"{name} has no TYPE")
    return families


def _add_sample(line: str, name: str, families: dict[str, Family]) -> None:
    found = SAMPLE.fullmatch(line)
    if found is None or name not in families:
        raise ValueError(line)
    family = families[name]
    labels = re.findall(LABEL, found[2] or "")
    suffix = found[1].removeprefix(name)
    is_quantile = any(label == "quantile" for label, _ in labels)
    if (
        not found[1].startswith(name)
        or suffix not in SUFFIXES[family.kind]
        or len({label for label, _ in labels}) < len(labels)
        or (family.kind == "summary" and is_quantile != (suffix == ""))
        or (family.kind != "summary" and is_quantile)
    ):
        raise ValueError(line)
    series = (suffix, frozenset((label, value) for label, value in labels))
    value = float(found[found.re.groups])
    if series in family.samples or (family.kind == "counter" and value < 0):
        raise ValueError(line)
    family.samples[series] = value
