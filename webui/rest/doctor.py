"""GET /doctor: symptoms, each with the values that explain it, the setting that affects it and the command
that changes that setting.

`doctor_json` also makes the live stream of the page.
"""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.rows.broker import ConfigRow
from broker.controller.rows.fields import Word
from broker.views.console import Views
from webui.doctor.checks import Check, Level, RecentTotals, Symptom
from webui.doctor.symptoms import examine, level_of
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import Listing, Maybe, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import run_in_slices


class AffectingSetting(msgspec.Struct, frozen=True):
    """The setting that affects a check; `command` doubles it, where that helps."""

    name: Word
    value: Annotated[str, msgspec.Meta(max_length=4_096)] | None
    dynamic: bool
    command: Annotated[str, msgspec.Meta(max_length=8_192)] | None


class Settings:
    """A cache of the broker's settings by name, refreshed when the metadata version changes."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._version = -1
        self._rows: dict[str, ConfigRow] = {}

    async def rows(self, node: str) -> Mapping[str, ConfigRow]:
        version = self._views.metadata.version
        if version != self._version:
            broker = ConfigResource(ResourceType.BROKER, node)
            rows = await run_in_slices(self._views.metadata.describe_configs(broker))
            self._rows = {row.name: row for row in rows}
            self._version = version
        return self._rows


async def doctor_json(views: Views, recent: RecentTotals, now_ms: int, settings: Settings) -> dict[str, Any]:
    symptoms = await examine(views, recent, now_ms)
    info = views.server_info()
    node = str(info.node_id)
    rows = await settings.rows(node)

    def setting(check: Check) -> dict[str, Any] | None:
        row = rows.get(check.setting or "")
        if row is None:
            return None
        command, value = None, row.value or ""
        if check.more and check.level is not Level.GOOD and not row.read_only and value.isdigit():
            words = [*info.endpoint.tool("kafka-configs.sh"), "--alter", "--entity-type", "brokers"]
            words += ["--entity-name", node, "--add-config", f"{row.name}={2 * int(value)}"]
            command = shlex.join(words)
        return as_json(AffectingSetting(row.name, row.value, not row.read_only, command))

    def check_json(check: Check) -> dict[str, Any]:
        first = {"title": check.title, "value": check.value, "of": check.of}  # in this order
        return first | as_json(check) | {"setting": setting(check)}

    def symptom_json(symptom: Symptom) -> dict[str, Any]:
        return {
            "key": symptom.key,
            "title": symptom.title,
            "level": symptom.level,
            "checks": [check_json(check) for check in symptom.checks],
        }

    return {"level": level_of(symptoms), "symptoms": [symptom_json(each) for each in symptoms]}


_LEVEL: Final = Text(choices=tuple(Level))
_CHECKS: Final = Listing(schema_of(Check, setting=Maybe(schema_of(AffectingSetting))))
_SYMPTOM: Final = Record({"key": Text(), "title": Text(), "level": _LEVEL, "checks": _CHECKS})
DOCTOR: Final = Record({"level": _LEVEL, "symptoms": Listing(_SYMPTOM)}, title="Diagnosis")


async def doctor(call: Call) -> Reply:
    console = call.console
    views = console.backend.views
    return Reply(await doctor_json(views, console.live.recent, console.now_ms(), Settings(views)))


ROUTES: Final = (
    Route(
        "GET /api/v1/doctor",
        "getDiagnosis",
        "Symptoms, each with current values that explain it and the settings that affect them.",
        doctor,
        {200: ResponseSpec("The current diagnosis", DOCTOR)},
    ),
)
