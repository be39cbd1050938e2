"""docs/gateway-protocol.md is generated, and names every API of a Kafka broker once."""

import re

from broker.api.support import KAFKA
from broker.gateway.support import PATH, render
from broker.protocol.api_key import NAMES


def test_the_page_is_what_is_generated():
    assert PATH.read_text(encoding="utf-8") == render(), "run python -m broker.gateway.support"


def test_every_api_of_kafka_is_in_one_place():
    page, _, _ = render().partition("## Where the gateway logs clients in")
    rows = re.findall(r"^\| \d+ \| (\w+) \|", page, re.MULTILINE)
    lists = re.findall(r"(?:^|, |,\n)([A-Z]\w+)(?=,|\.$)", page, re.MULTILINE)
    assert sorted(rows + lists) == sorted(NAMES[key] for key in KAFKA)
