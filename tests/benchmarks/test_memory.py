"""Warm pages are freed as others take memory, and not before."""

from benchmarks.memory import AHEAD, STEP, WarmPages


def _pages(size: int) -> tuple[WarmPages, list[int]]:
    free = [10 * AHEAD]
    return WarmPages(size, lambda: free[0]), free


def test_the_first_step_frees_the_pages_to_be_free_ahead() -> None:
    pages, free = _pages(AHEAD + STEP)
    assert pages.keep_free() == AHEAD
    free[0] += AHEAD
    assert pages.keep_free() == 0


def test_as_much_is_freed_as_was_taken_rounded_up_to_whole_steps() -> None:
    pages, free = _pages(AHEAD + 8 * STEP)
    pages.keep_free()
    for taken, freed in ((1, STEP), (STEP, STEP), (STEP + 1, 2 * STEP), (0, 0), (-STEP, 0)):
        free[0] = 11 * AHEAD - taken
        assert pages.keep_free() == freed


def test_no_more_is_freed_than_there_is() -> None:
    pages, free = _pages(STEP + 1)
    assert pages.keep_free() == 2 * STEP
    free[0] = 0
    assert pages.keep_free() == 0
    assert pages.freed == 2 * STEP
