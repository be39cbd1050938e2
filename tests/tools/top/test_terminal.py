"""Keys and frames of `weir top`."""

import io

from rich.text import Text

from broker.tools.top.terminal import console_for, keys_in, show


def test_keys_have_names_and_unknown_sequences_none() -> None:
    assert keys_in("q\x1b[A\x1bOB\t\x1b[Z\x1b[5~\r\x7fä") == [
        *("q", "up", "down", "tab", "backtab", "pageup", "enter", "backspace", "ä")
    ]
    assert keys_in("\x1b[24;5~\x1b[?1;2c") == []
    assert keys_in("\x1b") == ["escape"]


class Writes(io.StringIO):
    """A terminal's output that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []

    def write(self, text: str) -> int:
        self.all.append(text)
        return super().write(text)


def test_a_frame_is_one_write_that_never_clears_the_screen_first() -> None:
    out = Writes()
    console = console_for({"TERM": "xterm"}, file=out, width=3, height=3, color_system="standard")
    console.set_alt_screen(True)
    out.all.clear()
    show(console, [Text.assemble(("a", "bold"), "b"), Text(), Text("[b]", "watch")])
    assert out.all == ["\x1b[1;1H\x1b[1ma\x1b[0mb \x1b[2;1H   \x1b[3;1H\x1b[33m[b]\x1b[0m"]


def test_without_colour_what_is_urgent_is_reverse() -> None:
    out = io.StringIO()
    console = console_for(
        {"TERM": "xterm", "NO_COLOR": "1"}, file=out, width=2, height=1, color_system="standard"
    )
    console.set_alt_screen(True)
    show(console, [Text("no", "urgent")])
    assert out.getvalue().endswith("\x1b[1;1H\x1b[1;7mno\x1b[0m")
