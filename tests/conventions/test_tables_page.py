"""docs/tables.md is generated from the pipeline's dictionary, which describes every column."""

from pipeline.dictionary import PATH, TABLES, render


def test_the_page_is_generated_from_the_dictionary() -> None:
    assert PATH.read_text(encoding="utf-8") == render(), "run python -m pipeline.dictionary"


def test_every_column_has_a_meaning_and_every_table_keys_that_are_columns() -> None:
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.path
        assert set(table.keys) <= set(names), table.path
        assert all(column.meaning and column.type for column in table.columns), table.path
