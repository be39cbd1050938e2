"""How many refused requests the log gets."""

import pytest

from broker.common.limited_lines import LINES, LINES_OF_CLIENT, WINDOW_MS, LimitedLines


@pytest.mark.parametrize("asked", [LINES_OF_CLIENT - 1, LINES_OF_CLIENT, LINES_OF_CLIENT + 1])
def test_a_client_has_so_many_lines_in_a_window(asked: int) -> None:
    limited = LimitedLines()
    lines = [limited.line("User:a", "10.0.0.1", 0) for _ in range(asked)]
    assert sum(line is not None for line in lines) == min(asked, LINES_OF_CLIENT)
    assert limited.line("User:b", "10.0.0.1", 0) == max(0, asked - LINES_OF_CLIENT)
    assert limited.line("User:a", "10.0.0.2", 0) == 0


@pytest.mark.parametrize("asked", [2, 3, 4])
def test_a_client_may_have_another_number_of_lines(asked: int) -> None:
    limited = LimitedLines(3)
    lines = [limited.line("User:a", "10.0.0.1", 0) for _ in range(asked)]
    assert sum(line is not None for line in lines) == min(asked, 3)


@pytest.mark.parametrize(
    ("now_ms", "is_new"), [(WINDOW_MS - 1, False), (WINDOW_MS, True), (WINDOW_MS + 1, True)]
)
def test_a_window_ends_after_a_minute(now_ms: int, is_new: bool) -> None:
    limited = LimitedLines()
    for _ in range(LINES_OF_CLIENT + 3):
        limited.line("User:a", "10.0.0.1", 0)
    assert limited.line("User:a", "10.0.0.1", now_ms) == (3 if is_new else None)


@pytest.mark.parametrize("clients", [LINES - 1, LINES, LINES + 1])
def test_all_clients_together_have_so_many_lines(clients: int) -> None:
    limited = LimitedLines()
    lines = [limited.line(f"User:{number}", "10.0.0.1", 0) for number in range(clients)]
    assert sum(line is not None for line in lines) == min(clients, LINES)
