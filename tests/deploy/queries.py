"""What a query of Prometheus asks for: the metrics, and the labels that it names of them."""

import re
from typing import Final

METRIC: Final = re.compile(r"\b((?:kafka|weir)_\w+)(?:\{([^}]*)\})?")
MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPING: Final = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
SHOWN: Final = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
OF_PROMETHEUS: Final = frozenset({"instance", "job"})
"""Labels that the scrape adds."""


def metrics(expression: str) -> set[str]:
    return {found[1] for found in METRIC.finditer(expression)}


def matched(expression: str) -> dict[str, set[str]]:
    """Return the labels in the braces of each metric."""
    found: dict[str, set[str]] = {}
    for each in METRIC.finditer(expression):
        found.setdefault(each[1], set()).update(set(MATCHER.findall(each[2] or "")) - OF_PROMETHEUS)
    return found


def grouped(expression: str) -> set[str]:
    """Return the labels that the expression groups by."""
    names = {name.strip() for found in GROUPING.findall(expression) for name in found.split(",")}
    return names - OF_PROMETHEUS


def shown(text: str) -> set[str]:
    """Return the labels that a legend or a summary shows."""
    return set(SHOWN.findall(text)) - OF_PROMETHEUS
