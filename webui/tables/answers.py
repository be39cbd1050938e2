"""The JSON of a row and its schema, both read from the row's class: its fields are declared once.

`schema_of` is for the OpenAPI document and the tests, `as_json` for the answers, `as_json_in_steps` for rows
with long lists. Names and order of the fields are those of the row; broker.controller.rows.fields has the
types that are shown in another form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.structs import astuple

from broker.common.slices import SLICE, Steps
from webui.quotas import ANY_ENTITY, ENTITY
from webui.schema import NAME, Flag, Listing, Maybe, Names, Number, Record, Schema, Text
from webui.tables.json_output import finite, utc

Convert = Callable[[Any], Any]


class _Shown(NamedTuple):
    """How values of one type are shown; `convert` None: as they are. None is shown as null in any case."""

    schema: Schema
    convert: Convert | None = None


class _Plan(NamedTuple):
    """The presentation of rows of one class: their `fields`, those of them that are absent while they are
    null, and the `names` of all values, also of the hidden ones.
    """

    names: tuple[str, ...]
    fields: Mapping[str, Schema]
    converts: tuple[tuple[str, Convert], ...]
    left_out: tuple[str, ...]
    hidden: tuple[str, ...]


_plans: Final[dict[type, _Plan]] = {}


def as_json(row: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a row as JSON has them. Lists that it contains are converted in one piece."""
    names, _, converts, left_out, hidden = _plans.get(type(row)) or _plan_of(type(row))
    shown = dict(zip(names, astuple(row), strict=True))
    for name, convert in converts:
        value = shown[name]
        if value is not None:
            shown[name] = convert(value)
    for name in left_out:
        if shown[name] is None:
            del shown[name]
    for name in hidden:
        del shown[name]
    return shown


def as_json_in_steps(row: msgspec.Struct) -> Steps[dict[str, Any]]:
    """Return what `as_json` returns. Pauses after each row that the row contains, and in long lists."""
    plan = _plans.get(type(row)) or _plan_of(type(row))
    converts = dict(plan.converts)
    shown: dict[str, Any] = {}
    for name, value in zip(plan.names, astuple(row), strict=True):
        if name in plan.hidden or (value is None and name in plan.left_out):
            continue
        convert = converts.get(name)
        if value is None or convert is None:
            shown[name] = value
        elif isinstance(value, msgspec.Struct):
            shown[name] = yield from as_json_in_steps(value)
        elif isinstance(plan.fields[name], Listing):
            shown[name] = yield from _listed_in_steps(value, convert)
        else:
            shown[name] = convert(value)
        yield
    return shown


def _listed_in_steps(values: Sequence[Any], convert: Convert) -> Steps[list[Any]]:
    """Return what `convert` makes of a list, whose elements it converts one by one."""
    found: list[Any] = []
    if values and isinstance(values[0], msgspec.Struct):
        for each in values:
            found.append((yield from as_json_in_steps(each)))
            yield
        return found
    for at in range(0, len(values), SLICE):
        found += convert(values[at : at + SLICE])
        yield
    return found


def schema_of(row: type[msgspec.Struct], title: str = "", **more: Schema) -> Record:
    """Return the schema of what `as_json` returns for a row. `more` replaces or adds fields."""
    plan = _plan_of(row)
    return Record({**plan.fields, **more}, optional=frozenset(plan.left_out), title=title)


def _plan_of(row: type[msgspec.Struct]) -> _Plan:
    if row not in _plans:
        fields: dict[str, Schema] = {}
        converts: list[tuple[str, Convert]] = []
        names: list[str] = []
        left_out: list[str] = []
        hidden: list[str] = []
        described = inspect.type_info(row)
        assert isinstance(described, inspect.StructType)
        for field in described.fields:
            name, extra = field.encode_name, _extra_of(field.type)
            if extra.get("shown") == "moment" and name == field.name:
                name = name.removesuffix("_ms")
            names.append(name)
            if extra.get("hidden"):
                hidden.append(name)
                continue
            fields[name], convert = _shown(field.type)
            if convert is not None:
                converts.append((name, convert))
            if extra.get("left_out"):
                left_out.append(name)
        _plans[row] = _Plan(tuple(names), fields, tuple(converts), tuple(left_out), tuple(hidden))
    return _plans[row]


def _extra_of(kind: inspect.Type) -> Mapping[str, Any]:
    """Return the annotations of a type, or of its part that is not None."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            return {**_extra_of(inner), **(extra or {})}
        case inspect.UnionType(types=types):
            return {name: value for each in types for name, value in _extra_of(each).items()}
    return {}


_FORMS: Final[Mapping[str, _Shown]] = {
    "moment": _Shown(Text(form="date-time"), utc),
    "rule entity": _Shown(ENTITY, dict),
    "entity": _Shown(ANY_ENTITY, dict),
    "hex": _Shown(Text(), bytes.hex),
    "object": _Shown(Names(Text(max_length=1_000_000)), dict),
}


def _shown(kind: inspect.Type) -> _Shown:
    match kind:
        case inspect.Metadata(type=inner, extra=extra, extra_json_schema=words):
            return _annotated(inner, extra or {}, words or {})
        case inspect.UnionType(types=types):
            (inner,) = (each for each in types if not isinstance(each, inspect.NoneType))
            return _nullable(_shown(inner))
        case inspect.BoolType():
            return _Shown(Flag())
        case inspect.IntType(ge=least, le=most):
            return _Shown(Number(integer=True, minimum=0 if least is None else least, maximum=most))
        case inspect.FloatType(ge=least, gt=above, le=most):
            return _Shown(Number(minimum=least, exclusive_minimum=above, maximum=most))
        case inspect.StrType(min_length=shortest, max_length=longest):
            return _Shown(NAME if longest is None else Text(max_length=longest, min_length=shortest or 0))
        case inspect.EnumType(cls=choices):
            return _Shown(Text(choices=tuple(map(str, choices))))
        case inspect.StructType(cls=row):
            return _Shown(schema_of(row), as_json)
        case (
            inspect.VarTupleType(item_type=item, max_length=most)
            | inspect.ListType(item_type=item, max_length=most)
        ):
            return _listed(_shown(item), most)
        case inspect.DictType(value_type=value):
            return _named(_shown(value))
    raise TypeError(f"an answer cannot show {kind}")


def _annotated(inner: inspect.Type, extra: Mapping[str, Any], words: Mapping[str, Any]) -> _Shown:
    match extra:
        case {"left_out": True}:
            assert isinstance(inner, inspect.UnionType)
            (part,) = (each for each in inner.types if not isinstance(each, inspect.NoneType))
            return _annotated(part, {}, words)
        case {"shown": "measured"}:
            return _Shown(_nullable(_shown(inner)).schema, finite)
        case {"shown": form}:
            return _FORMS[form]
        case {"pairs": names}:
            assert isinstance(inner, inspect.VarTupleType) and isinstance(inner.item_type, inspect.TupleType)
            parts = zip(names, map(_shown, inner.item_type.item_types), strict=True)
            pair = Record({name: shown.schema for name, shown in parts})
            listed = _listed(_Shown(pair), inner.max_length).schema
            return _Shown(listed, lambda pairs: [dict(zip(names, each, strict=True)) for each in pairs])
    shown = _shown(inner)
    match shown.schema, words:
        case Record(), {"title": title}:
            return _Shown(msgspec.structs.replace(shown.schema, title=title), shown.convert)
        case Text(), {"enum": choices}:
            return _Shown(Text(choices=tuple(choices)))
    return shown


def _listed(item: _Shown, most: int | None) -> _Shown:
    convert = item.convert
    listing = Listing(item.schema) if most is None else Listing(item.schema, max_items=most)
    if convert is None:
        return _Shown(listing, list)
    return _Shown(listing, lambda values: [None if each is None else convert(each) for each in values])


def _named(value: _Shown) -> _Shown:
    convert = value.convert
    names = Names(value.schema)
    if convert is None:
        return _Shown(names, dict)
    return _Shown(
        names,
        lambda values: {name: None if each is None else convert(each) for name, each in values.items()},
    )


def _nullable(shown: _Shown) -> _Shown:
    schema = (
        msgspec.structs.replace(shown.schema, nullable=True)
        if isinstance(shown.schema, Text | Number | Flag)
        else Maybe(shown.schema)
    )
    return _Shown(schema, shown.convert)
