"""GET /doctor: symptoms, each with the values that explain it and the setting to change."""

from typing import Final

from webui.doctor.answer import Settings, doctor_json
from webui.doctor.checks import Level, Unit
from webui.rest.answers import MAYBE
from webui.rest.routing import Answer, Call, Reply, Route
from webui.rest.schema import Flag, Listing, Maybe, Record, Text

_LEVEL: Final = Text(choices=tuple(Level))
_LINE: Final = Text(longest=4096, nullable=True)
DOCTOR: Final = Record(
    {
        "level": _LEVEL,
        "symptoms": Listing(
            Record(
                {
                    "key": Text(),
                    "title": Text(),
                    "level": _LEVEL,
                    "checks": Listing(
                        Record(
                            {
                                "title": Text(),
                                "value": MAYBE,
                                "of": MAYBE,
                                "unit": Text(choices=tuple(Unit)),
                                "level": _LEVEL,
                                "says": Text(longest=4096),
                                "page": _LINE,
                                "setting": Maybe(
                                    Record(
                                        {
                                            "name": Text(),
                                            "value": _LINE,
                                            "dynamic": Flag(),
                                            "command": Text(longest=8192, nullable=True),
                                        }
                                    )
                                ),
                            }
                        )
                    ),
                }
            )
        ),
    }
)


async def doctor(call: Call) -> Reply:
    console = call.console
    views = console.backend.views
    return Reply(await doctor_json(views, console.live.recent, console.now_ms(), Settings(views)))


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/doctor",
        "getDiagnosis",
        "Symptoms, each with current values that explain it and the settings that affect them.",
        doctor,
        {200: Answer("The current diagnosis", DOCTOR)},
    ),
)
