"""Log lines: an event and its facts, as text or as one JSON object per line. `__main__` calls `set_up` once.

Facts are passed in logging's `extra`. Control characters in values are escaped, because clients choose client
ids and names.
"""

import json
import logging
import sys
import time
from typing import Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(level: str, form: str) -> None:
    """Send all log lines of the process to stderr. `level` and `form` are `logging.level` and
    `logging.format`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def facts(record: logging.LogRecord) -> dict[str, object]:
    """Return what the caller passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class TextLines(logging.Formatter):
    """`2026-01-01T00:00:00.000Z WARNING event key=value ...`"""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname, _escape(record.getMessage())]
        words += [f"{key}={_quote(value)}" for key, value in facts(record).items()]
        line = " ".join(words)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLines(logging.Formatter):
    """One object per line: time, level, event, logger, and the facts."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        entry.update(facts(record))
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _escape(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _quote(value: object) -> str:
    text = _escape(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text or not text else text
