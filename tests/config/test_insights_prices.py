"""The prices of Insights: what is a price and what a currency, and what a refusal says."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import build_config
from broker.config.sections.console import MAX_CURRENCY

PRICE = "insights.price.per.gb.produced"
CURRENCY = "insights.price.currency"


@pytest.mark.parametrize("text", ["0", "0.05", "1e-7", "99999.9", "100000"])
def test_a_price_is_a_number_from_zero_to_a_hundred_thousand(text: str) -> None:
    console = build_config({PRICE: text, "insights.price.per.gb.fetched": text}).console
    assert console.price_per_gb_produced == console.price_per_gb_fetched == float(text)


@pytest.mark.parametrize("text", ["-0.01", "100000.1", "1e10", "nan", "inf", "5 EUR", "0,05", ""])
def test_what_is_no_price_is_refused_with_the_key_the_value_and_the_range(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        build_config({PRICE: text})
    assert all(each in str(raised.value) for each in (PRICE, text, "a number from 0 to 100000"))


@pytest.mark.parametrize("size", [0, MAX_CURRENCY - 1, MAX_CURRENCY])
def test_a_currency_is_a_short_text(size: int) -> None:
    assert build_config({CURRENCY: "€" * size}).console.price_currency == "€" * size


@pytest.mark.parametrize("text", ["€" * (MAX_CURRENCY + 1), "EU\nR", "EUR\u202e", "\x00"])
def test_a_currency_that_could_disturb_a_page_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=CURRENCY):
        build_config({CURRENCY: text})
