"""The terminal of `weir top`: modes, size, keys and escape sequences.

The only file of the package that uses a terminal. Restores the terminal's modes at the end, on an error, on
Ctrl-C, SIGTERM and SIGHUP, and while Ctrl-Z stops the program.
"""

import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from broker.commands.top.screen import Line, Style

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"
_BEGIN: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[0m\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"

_IN_COLOUR: Final = {
    Style.PLAIN: "",
    Style.BOLD: "\x1b[1m",
    Style.DIM: "\x1b[2m",
    Style.MARKED: "\x1b[1;7m",
    Style.WATCH: "\x1b[33m",
    Style.URGENT: "\x1b[1;31m",
}
_WITHOUT: Final = _IN_COLOUR | {Style.WATCH: "\x1b[1m", Style.URGENT: "\x1b[1;7m"}

_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[Z": "backtab",
}
_NAMES: Final = {
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_KEY: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)


def is_usable(environment: Mapping[str, str]) -> bool:
    """Return whether there is an interactive terminal that supports escape sequences."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")


def keys_in(text: str) -> list[str]:
    """Return the pressed keys by name; ignore unbound escape sequences."""
    found: list[str] = []
    for pressed in _KEY.findall(text):
        if len(pressed) == 1:
            found.append(_NAMES.get(pressed, pressed))
        elif pressed in _SEQUENCES:
            found.append(_SEQUENCES[pressed])
    return found


def frame(lines: Sequence[Line], styles: Mapping[Style, str]) -> str:
    """Return one write that draws `lines` over the screen without clearing it first."""
    drawn = "\r\n".join(
        "".join(f"{styles[style]}{text}\x1b[0m" if styles[style] else text for text, style in line)
        + _END_OF_LINE
        for line in lines
    )
    return f"{_BEGIN}{drawn}{_END_OF_SCREEN}"


class Terminal:
    """The terminal while the full screen is active. Made by `open_terminal`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._styles = _WITHOUT if environment.get("NO_COLOR") else _IN_COLOUR
        self._found: list[Any] = termios.tcgetattr(self._in)
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        columns, rows = os.get_terminal_size(self._out)
        return (columns, rows) if columns and rows else (80, 24)

    def show(self, lines: Sequence[Line]) -> None:
        self._write(frame(lines, self._styles))

    def keys(self, patience_s: float) -> list[str]:
        """Return the pressed keys, waiting at most `patience_s`.

        Returns early with none on a change of the window's size and when the program continues after
        Ctrl-Z. Raises EOFError at the end of input.
        """
        ready, _, _ = select.select([self._in, self._woken], [], [], patience_s)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._in not in ready:
            return []
        pressed = os.read(self._in, 4096)
        if not pressed:
            raise EOFError
        return keys_in(pressed.decode("utf-8", "replace"))

    def enter(self) -> None:
        tty.setcbreak(self._in)
        self._write(_ENTER)

    def leave(self) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._in, termios.TCSADRAIN, self._found)

    def wake_on_signals(self) -> Callable[[], None]:
        """Make signals end `keys` early; return a function that undoes it."""
        before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

        def end() -> None:
            signal.set_wakeup_fd(before)
            os.close(self._waker)
            os.close(self._woken)

        return end

    def stop(self, *_: object) -> None:
        """Handle Ctrl-Z: restore the shell's terminal until the shell brings this program to the
        foreground.
        """
        self.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self.stop)
        self.enter()

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        while data:
            data = data[os.write(self._out, data) :]


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


@contextmanager
def open_terminal(environment: Mapping[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(environment)
    handlers: dict[signal.Signals, Any] = {
        signal.SIGWINCH: lambda *_: None,
        signal.SIGTSTP: terminal.stop,
        # A script's background programs start with SIGINT ignored.
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: _end,
        signal.SIGHUP: _end,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    stop_waking = terminal.wake_on_signals()
    terminal.enter()
    try:
        yield terminal
    finally:
        terminal.leave()
        for number, handler in before.items():
            signal.signal(number, handler)
        stop_waking()
