"""The strict parser of the tests refuses invalid pages."""

import pytest

from tests.support.prometheus import parse

HEAD = "# HELP f F\n# TYPE f {}\n"


def test_a_page_is_read() -> None:
    page = (
        HEAD.format("summary")
        + 'f{a="x \\"y\\"",quantile="0.5"} NaN\nf_sum{a="x"} 1.5e-05\nf_count{a="x"} 3\n'
    )
    family = parse(page)["f"]
    assert (family.help, family.kind, family.label_names()) == ("F", "summary", {"a", "quantile"})
    assert family.value("_sum", a="x") == 1.5e-05


@pytest.mark.parametrize(
    "page",
    [
        "f 1\n",
        "# TYPE f gauge\nf 1\n",
        "# HELP f F\nf 1\n",
        "# HELP f F\n",
        HEAD.format("gauge") + HEAD.format("gauge"),
        HEAD.format("gauge") + "# TYPE f gauge\n",
        HEAD.format("histogram"),
        HEAD.format("gauge") + "f 1\nf 1\n",
        HEAD.format("gauge") + 'f{a="1",b="2"} 1\nf{b="2",a="1"} 1\n',
        HEAD.format("gauge") + 'f{a="1",a="2"} 1\n',
        HEAD.format("gauge") + 'f{a="\\x"} 1\n',
        HEAD.format("gauge") + 'f{a="1"}  1\n',
        HEAD.format("gauge") + "f{} 1\n",
        HEAD.format("gauge") + "f one\n",
        HEAD.format("gauge") + "g 1\n",
        HEAD.format("gauge") + "f_count 1\n",
        HEAD.format("gauge") + 'f{quantile="0.5"} 1\n',
        HEAD.format("summary") + "f 1\n",
        HEAD.format("summary") + 'f_count{quantile="0.5"} 1\n',
        HEAD.format("counter") + "f -1\n",
    ],
)
def test_invalid_pages_are_refused(page: str) -> None:
    with pytest.raises(ValueError):
        parse(page)
