"""Every schema in every version, both ways, byte for byte against kio."""

import random

import pytest

from broker.protocol import newer
from broker.protocol.codec import (
    decode_data,
    decode_request,
    decode_response,
    encode_data,
    encode_request,
    encode_response,
    known_versions,
)
from broker.protocol.messages import APIS, DATA
from tests.protocol import referee

SAMPLES = 6


def samples(name):
    for schema in referee.schemas(name):
        rng = random.Random(f"{name} {schema.kind} {schema.version}")
        for _ in range(SAMPLES):
            yield schema, referee.random_entity(schema.theirs, rng)


def encoded(schema, message):
    if schema.kind == "request":
        parts = encode_request(schema.api_key, schema.version)(message, 77, "a client")
    elif schema.kind == "response":
        parts = encode_response(schema.api_key, schema.version)(message, 77)
    else:
        parts = encode_data(schema.name, schema.version)(message)
    return b"".join(parts)


def expected(schema, entity):
    if schema.kind == "data":
        return referee.their_bytes(entity)
    if schema.kind == "response":
        return referee.their_frame(entity, correlation_id=77)
    header = {"request_api_key": schema.api_key, "request_api_version": schema.version, "correlation_id": 77}
    return referee.their_frame(entity, **header, client_id="a client")


def decoder(schema):
    if schema.kind == "data":
        return decode_data(schema.name, schema.version)
    return (decode_request if schema.kind == "request" else decode_response)(schema.api_key, schema.version)


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_encodes_as_kio_does(name):
    for schema, entity in samples(name):
        message = referee.translate(entity, schema.ours)
        assert encoded(schema, message) == expected(schema, entity), (schema, message)


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_decodes_what_kio_encodes(name):
    for schema, entity in samples(name):
        message = referee.translate(entity, schema.ours)
        body = b"head" + referee.their_bytes(entity)
        decode = decoder(schema)
        for buffer in (body, bytearray(body), memoryview(body)):
            assert decode(buffer, 4) == message, (schema, message)


@pytest.mark.rotates
@pytest.mark.parametrize("name", referee.NAMES)
def test_unknown_tags_are_skipped_in_every_struct(name):
    unknown = {9_000: b"", 9_001: b"x" * 200, 2**31 - 1: b"\xff"}
    for schema, entity in samples(name):
        message = referee.translate(entity, schema.ours)
        plain = referee.plain_bytes(message, schema.version)
        assert plain == referee.their_bytes(entity)
        assert decoder(schema)(referee.plain_bytes(message, schema.version, unknown), 0) == message


def test_covers_every_version_of_every_served_schema():
    keys = {referee.API_KEYS[name] for name in referee.NAMES if name in referee.API_KEYS}
    assert keys | newer.APIS.keys() == APIS.keys()
    assert {name for name in referee.NAMES if name not in referee.API_KEYS} == DATA.keys()
    for name in referee.NAMES:
        if name in referee.API_KEYS:
            versions = {schema.version for schema in referee.schemas(name)}
            last, _ = newer.VERSIONS.get(name, (max(versions), ()))
            assert known_versions(referee.API_KEYS[name]) == (min(versions), last)
