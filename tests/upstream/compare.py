"""What differs between the tables of two Kafka versions, as lines of a report. Used by __main__."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.upstream.jars import Tables

PROSE: Final = ("about", "fields", "commonStructs", "name")


def report(old: Tables, new: Tables) -> Iterator[str]:
    """Yield the lines: a heading for each table, then `+` for what is new, `-` for what is gone, and `~` for
    what has changed.
    """
    if new.version == old.version:
        yield f"Kafka {new.version} is the newest one."
        return
    yield f"Kafka {new.version} against {old.version}"
    sections = {
        "APIs of a broker": _changed(_apis(old), _apis(new)),
        "Messages": _changed(_fields_of(old), _fields_of(new)),
        **{
            f"Configuration keys: {kind}": _changed(old.configs[kind], new.configs[kind])
            for kind in sorted(new.configs)
        },
        "Features: least level, of new clusters, highest": _changed(old.features, new.features),
        "Options of tools": _usages(old.tools, new.tools),
    }
    for title, lines in sections.items():
        found = list(lines)
        yield ""
        yield f"{title}: {len(found) or 'no'} changes"
        yield from (f"  {line}" for line in found)


def _apis(tables: Tables) -> dict[str, str]:
    names = {each["apiKey"]: each["name"] for each in tables.messages.values() if each["type"] == "request"}
    return {f"{key} {names[key]}": versions for key, versions in sorted(tables.apis.items())}


def _fields_of(tables: Tables) -> dict[str, dict[str, Any]]:
    return {path: facts for _, schema in sorted(tables.messages.items()) for path, facts in fields(schema)}


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and each of its fields: the path, and all that is said of it but prose."""
    here = f"{path}.{schema['name']}" if path else schema["name"]
    yield here, {key: value for key, value in schema.items() if key not in PROSE}
    for each in (*schema.get("fields", ()), *schema.get("commonStructs", ())):
        yield from fields(each, here)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys(), key=lambda name: [_number(part) for part in name.split()]):
        parent = name.rpartition(".")[0]
        if parent and (parent in old) != (parent in new):
            continue  # a new message, not each field of it
        if name not in old:
            yield f"+ {name}: {_text(new[name])}"
        elif name not in new:
            yield f"- {name}"
        elif old[name] != new[name]:
            yield f"~ {name}: {_difference(old[name], new[name])}"


def _number(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (-1, part)


def _difference(old: Any, new: Any) -> str:
    if not isinstance(old, dict):
        return f"{_text(old)} -> {_text(new)}"
    named = [
        name for name in (*old, *(each for each in new if each not in old)) if old.get(name) != new.get(name)
    ]
    return ", ".join(f"{name} {_text(old.get(name))} -> {_text(new.get(name))}" for name in named)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items() if each not in (None, False))
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "nothing" if value is None else "empty" if value == "" else str(value)


def _usages(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each tool whose options or subcommands differ."""
    for tool in sorted(old.keys() | new.keys()):
        before, after = (_options(usages[tool]) if tool in usages else {} for usages in (old, new))
        words = [f"+ {name}" for name in after if name not in before]
        words += [f"- {name}" for name in before if name not in after]
        words += [f"deprecated {name}" for name in after if after[name] and not before.get(name)]
        if tool not in old:
            yield f"+ {tool}"
        elif tool not in new:
            yield f"- {tool}"
        elif words:
            yield f"~ {tool}: {', '.join(words)}"


def _options(usage: str) -> dict[str, bool]:
    """Return the options and subcommands by name, and whether their description calls them deprecated."""
    found = {name: False for names in re.findall(r"{([a-z0-9,-]+)}", usage) for name in names.split(",")}
    parts = re.split(r"(?m)^ {0,2}(?=-)|(?<=\[)(?=--)", usage)
    for part in parts:
        name = re.match(r"--?[a-zA-Z][a-zA-Z0-9.-]*", part)
        if name is not None:
            found[name[0]] = found.get(name[0], False) or "(DEPRECATED" in part.upper()
    return found
