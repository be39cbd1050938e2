"""The terminal of `weir top`: modes, size and keys; rich writes to it.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, Group
from rich.text import Text
from rich.theme import Theme

from broker.tools.top.screen import COLOURS, NO_COLOURS

_KEYS: Final = {
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
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
}
_PLAIN_TERMINALS: Final = ("", "dumb", "unknown")
"""Values of TERM for which rich writes no escape sequences."""

_KEY: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)


def is_usable(environment: Mapping[str, str]) -> bool:
    """Return whether there is an interactive terminal that supports escape sequences."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environment.get("TERM", "") not in _PLAIN_TERMINALS


def keys_in(text: str) -> list[str]:
    """Return the pressed keys by name; ignore unbound escape sequences."""
    pressed = _KEY.findall(text)
    return [_KEYS.get(each, each) for each in pressed if each in _KEYS or len(each) == 1]


def console_for(environment: Mapping[str, str], **options: Any) -> Console:
    """Return a console that takes no text as markup. `options` are those of rich's Console."""
    theme = Theme(NO_COLOURS if environment.get("NO_COLOR") else COLOURS)
    return Console(force_terminal=True, markup=False, emoji=False, highlight=False, theme=theme, **options)


def show(console: Console, lines: list[Text]) -> None:
    """Draw `lines` over the screen with one write, without clearing it first."""
    console.update_screen(Group(*lines))


class Terminal:
    """The terminal while the full screen is active, from `opened`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._console = console_for(environment)
        self._modes: list[Any] = termios.tcgetattr(self._in)
        self._woken, self._waker = os.pipe()
        for end in (self._woken, self._waker):
            os.set_blocking(end, False)

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        columns, rows = os.get_terminal_size(self._out)
        return (columns, rows) if columns and rows else (80, 24)

    def show(self, lines: list[Text]) -> None:
        self._console.size = self.size
        show(self._console, lines)

    def keys(self, timeout_s: float) -> list[str]:
        """Return the pressed keys, waiting at most `timeout_s`.

        Returns early with none on a change of the window's size and when the program continues after
        Ctrl-Z. Raises EOFError at the end of input.
        """
        ready, _, _ = select.select([self._in, self._woken], [], [], timeout_s)
        if self._woken in ready and signal.SIGTSTP in os.read(self._woken, 4096):
            self._stop()
        if self._in not in ready:
            return []
        pressed = os.read(self._in, 4096)
        if not pressed:
            raise EOFError
        return keys_in(pressed.decode("utf-8", "replace"))

    def _enter(self) -> None:
        tty.setcbreak(self._in)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)

    def _leave(self) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)
        termios.tcsetattr(self._in, termios.TCSADRAIN, self._modes)

    def _stop(self) -> None:
        """Restore the shell's terminal until the shell brings this program to the foreground."""
        self._leave()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._enter()

    @contextmanager
    def opened(self) -> Iterator["Terminal"]:
        handlers: dict[signal.Signals, Any] = {
            # `keys` handles these two when their numbers arrive in its pipe.
            signal.SIGWINCH: lambda *_: None,
            signal.SIGTSTP: lambda *_: None,
            # A script's background programs start with SIGINT ignored.
            signal.SIGINT: signal.default_int_handler,
            signal.SIGTERM: _exit,
            signal.SIGHUP: _exit,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wakeup_before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        try:
            self._enter()
            yield self
        finally:
            self._leave()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup_before)
            os.close(self._waker)
            os.close(self._woken)


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)
