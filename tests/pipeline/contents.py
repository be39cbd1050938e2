"""What a warehouse holds, read without Spark, and whether two hold the same."""

from math import isclose

from deltalake import DeltaTable


def contents(warehouse):
    """Every table's rows, as text where they must be equal, in an order of their own."""
    found = {}
    for log in sorted(warehouse.glob("*/*/_delta_log")):
        rows = DeltaTable(log.parent).to_pyarrow_table().to_pylist()
        found["/".join(log.parent.parts[-2:])] = sorted(rows, key=_key)
    return found


def _key(row):
    """Numbers that are sums of fractions do not tell rows apart."""
    return repr(sorted((name, value) for name, value in row.items() if not isinstance(value, float)))


def assert_equal(found, wanted):
    assert {name: len(rows) for name, rows in found.items()} == {
        name: len(rows) for name, rows in wanted.items()
    }
    for name, rows in wanted.items():
        for here, there in zip(found[name], rows, strict=True):
            assert _key(here) == _key(there), name
            for field, value in there.items():
                if isinstance(value, float):
                    assert isclose(here[field], value, rel_tol=1e-9), (name, field)
