"""Reads a quota file, as `weir quotas export` writes it, or the same list inside a scenario.

Used by `reading`, and by the command line for --compare. broker.quotas validates entities and limits.
"""

from pathlib import Path

from broker.errors import ApiError
from broker.quotas.client_quota_requests import validate_alteration
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity
from broker.simulation.scenario import Limit
from broker.simulation.values import truth
from broker.strict_yaml import Place, read_file


def read_limits(path: Path) -> tuple[Limit, ...]:
    """Read a quota file. Raises BadFileError."""
    fields = read_file(path, path.name).fields("quotas")
    return limits_of(fields.need("quotas"))


def limits_of(place: Place) -> tuple[Limit, ...]:
    """Read a list of quotas. Raises BadFileError."""
    seen: set[Entity] = set()
    return tuple(_limit(each, seen) for each in place.items())


def _limit(place: Place, seen: set[Entity]) -> Limit:
    fields = place.fields("entity", "limits", "shadow")
    names = fields.need("entity").fields(USER, CLIENT_ID, IP)
    pairs = tuple((kind, None if name.is_null else name.text()) for kind, name in names.by_name.items())
    values = {key: _number(value) for key, value in fields.need("limits").fields().by_name.items()}
    try:
        entity = validate_alteration(pairs, values.items())
    except ApiError as error:
        place.refuse(str(error.message))
    if entity in seen:
        place.refuse(f"{entity} is given twice")
    seen.add(entity)
    return Limit(entity, values, fields.get("shadow", truth, False))


def _number(place: Place) -> float:
    try:
        return float(place.text())
    except ValueError:
        place.refuse(f"{place.text()}: expected a number")
