"""One test for all rows of a table, where a row takes less than a test costs: some milliseconds.

A row that fails ends the test, and is named in its error.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

Row = TypeVar("Row")


def for_each(
    rows: Iterable[Row], name: Callable[[Row], str]
) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    """Make a test without arguments of one of a row."""

    def of_all(test: Callable[[Row], None]) -> Callable[[], None]:
        # Not functools.wraps: pytest would take the argument for a fixture.
        def run() -> None:
            for row in rows:
                try:
                    test(row)
                except BaseException as error:
                    error.add_note(f"for {name(row)}")
                    raise

        run.__doc__ = test.__doc__
        return run

    return of_all
