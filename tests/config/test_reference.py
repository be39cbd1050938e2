"""The committed configuration reference equals the generated one."""

from broker.config.reference import PATH, render
from broker.config.table import SPELLINGS


def test_the_committed_reference_is_what_the_table_makes() -> None:
    assert PATH.read_text(encoding="utf-8") == render(), "run python -m broker.config.reference"


def test_every_spelling_is_in_the_reference() -> None:
    text = render()
    assert [key for key in SPELLINGS if f"{key}`" not in text] == []
