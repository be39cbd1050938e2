"""Keys and header versions, compared with kio and with the table recorded from Kafka."""

import json
from pathlib import Path

import pytest

from broker.common.errors import ProtocolViolation
from broker.protocol.api_key import NAMES, ApiKey, request_header_version, response_header_version
from broker.protocol.messages import APIS
from tests.protocol import referee

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "api_table.jsonl"
RENAMED = {"ListClientMetricsResources": "ListConfigResources"}  # key 74, by KIP-1142


@pytest.mark.skipif(not VECTORS.exists(), reason="the recorded table lies outside the repository")
def test_agrees_with_every_row_that_was_recorded_from_kafka():
    rows = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(rows) == 327
    for row in rows:
        key, version = row["key"], row["version"]
        assert NAMES[key] == RENAMED.get(row["api"], row["api"])
        assert request_header_version(key, version) == row["request_header"], row
        assert response_header_version(key, version) == row["response_header"], row


@pytest.mark.parametrize("name", sorted(referee.API_KEYS))
def test_agrees_with_the_headers_of_kio(name):
    for schema in referee.schemas(name):
        header = {"request": request_header_version, "response": response_header_version}[schema.kind]
        assert header(schema.api_key, schema.version) == schema.theirs.__header_schema__.__version__, schema


def test_names_are_those_of_the_messages():
    assert {key: NAMES[key] for key in APIS} == {key: prefix for key, (_, prefix) in APIS.items()}
    assert NAMES[4] == "LeaderAndIsr"
    assert sorted(NAMES) == list(range(95))


def test_the_answer_to_api_versions_never_has_tags():
    assert [request_header_version(ApiKey.API_VERSIONS, version) for version in (2, 3, 4, 99)] == [1, 2, 2, 2]
    assert [response_header_version(ApiKey.API_VERSIONS, version) for version in (2, 3, 4, 99)] == [
        0,
        0,
        0,
        0,
    ]


def test_some_apis_are_never_flexible():
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 32767) == 1
    assert response_header_version(ApiKey.OFFSET_DELETE, 32767) == 0


@pytest.mark.parametrize("api_key", [-1, 95, 32767])
def test_a_key_that_kafka_never_gave_out_is_a_violation(api_key):
    with pytest.raises(ProtocolViolation, match=str(api_key)):
        request_header_version(api_key, 0)
    with pytest.raises(ProtocolViolation, match=str(api_key)):
        response_header_version(api_key, 0)
