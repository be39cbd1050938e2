"""Numbers with three significant digits and a unit, as on the console's pages.

Used by the tables and the head of `weir top`. Every character takes one column.
"""

from typing import Final

NOTHING: Final = "-"

_DECIMAL: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BYTES: Final = ("producer_byte_rate", "consumer_byte_rate")
_PERCENT: Final = ("request_percentage",)


def digits(value: float) -> str:
    """Format a number: 1.05, 31.5, 312, 12,345."""
    size = abs(value)
    if size >= 999.5 or value == int(value):
        return f"{round(value):,}"
    text = f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(value: float, *, binary: bool = False) -> str:
    """Format a number of bytes: 1.2 MB, or 1.14 MiB."""
    base, names = (1024, _BINARY) if binary else (1000, _DECIMAL)
    step = 0
    while step < len(names) - 1 and abs(value) >= base * 0.9995:
        value /= base
        step += 1
    return f"{digits(value) if step else round(value)} {names[step]}"


def rate(key: str, value: float | None, bound: float | None = None) -> str:
    """Format a limit `key`, or the value compared with `bound`: 1048576 is 1 MiB and 1000000 is 1 MB."""
    if value is None:
        return NOTHING
    if key in _BYTES:
        limit = value if bound is None else bound
        return f"{size(value, binary=limit >= 1024 and limit % 1024 == 0 and limit % 1000 != 0)}/s"
    return f"{digits(value)} %" if key in _PERCENT else f"{digits(value)}/s"


def share(fraction: float | None) -> str:
    """Format a fraction: 0.973 is 97 %."""
    return NOTHING if fraction is None else f"{fraction * 100:.0f} %"


def milliseconds(value: float) -> str:
    return f"{max(0, round(value)):,} ms"
