"""The reason of an error of Spark, Delta or Java in one line. For `command`, `schedule` and `opening`."""

from typing import Final

PY4J_ERROR: Final = "An error occurred while calling "


def first_line(error: Exception) -> str:
    """Return the first line of an error, and its deepest cause."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ").strip() for line in lines if line.startswith("Caused by")]
    if len(lines) > 1 and lines[0].startswith(PY4J_ERROR):
        # The position in the bridge between Python and the JVM does not help the user.
        lines = [causes[-1] if causes else lines[1].removeprefix(": ")]
    return "; ".join(dict.fromkeys([lines[0] if lines else type(error).__name__, *causes[-1:]]))
