"""Decoders and encoders by API key and version, compiled on first use.

Called by the handler pool (decode_request) and the handlers (encode_response); tests, tools and the gateway
use the other direction.
"""

import struct
from collections.abc import Callable, Generator
from functools import cache
from importlib import import_module
from typing import Any

from broker.common.errors import BrokerBug, ProtocolViolation
from broker.protocol import messages
from broker.protocol.api_key import request_header_version, response_header_version
from broker.protocol.compile_decode import (
    Decoder,
    SlicedDecoder,
    compile_decoder,
    compile_decoder_in_slices,
)
from broker.protocol.compile_encode import (
    BodyEncoder,
    ResponseEncoder,
    SlicedEncoder,
    compile_body_encoder,
    compile_body_encoder_in_slices,
    compile_response_encoder,
    compile_response_encoder_in_slices,
)
from broker.protocol.messages import APIS, DATA
from broker.protocol.schema import Buffer, Message, Records
from broker.protocol.varint import skip_tags

RequestEncoder = Callable[[Any, int, str | None], list[Records]]
"""(message, correlation id, client id) -> the whole frame, with its size, as buffers in order."""

SlicedRequestEncoder = Callable[[Any, int, str | None], Generator[None, None, list[Records]]]
"""A `RequestEncoder` as a generator. The message must not change until it ends."""


@cache
def decode_request(api_key: int, version: int) -> Decoder:
    """Return the decoder. Raises ProtocolViolation if no schema has this API key and version."""
    return compile_decoder(_known(request_class(api_key), version), version)


@cache
def decode_request_in_slices(api_key: int, version: int) -> SlicedDecoder:
    """Return a decoder for large requests, a generator that returns the message.

    It yields None after a bounded amount of work. Raises as decode_request.
    """
    return compile_decoder_in_slices(_known(request_class(api_key), version), version)


@cache
def decode_response(api_key: int, version: int) -> Decoder:
    """Return the decoder of a response body, without the response header."""
    return compile_decoder(_known(response_class(api_key), version), version)


@cache
def decode_response_in_slices(api_key: int, version: int) -> SlicedDecoder:
    """Return a decoder for large response bodies, a generator as that of requests."""
    return compile_decoder_in_slices(_known(response_class(api_key), version), version)


@cache
def encode_response(api_key: int, version: int) -> ResponseEncoder:
    """Return the encoder. Raises BrokerBug if no schema has this API key and version."""
    message = _response_class(api_key, version)
    return compile_response_encoder(message, version, response_header_version(api_key, version))


@cache
def encode_response_in_slices(api_key: int, version: int) -> SlicedEncoder:
    """Return an encoder for large responses, a generator that returns the buffers.

    It yields None after a bounded amount of work. Raises as encode_response.
    """
    message = _response_class(api_key, version)
    return compile_response_encoder_in_slices(message, version, response_header_version(api_key, version))


@cache
def encode_request(api_key: int, version: int) -> RequestEncoder:
    """Return the encoder of whole request frames, as a client sends them."""
    body = compile_body_encoder(_known(request_class(api_key), version), version)

    def frame(message: Any, correlation_id: int, client_id: str | None) -> list[Records]:
        return _framed(api_key, version, correlation_id, client_id, body(message))

    return frame


@cache
def encode_request_in_slices(api_key: int, version: int) -> SlicedRequestEncoder:
    """Return an encoder for large requests, a generator that returns the buffers."""
    body = compile_body_encoder_in_slices(_known(request_class(api_key), version), version)

    def frame(
        message: Any, correlation_id: int, client_id: str | None
    ) -> Generator[None, None, list[Records]]:
        parts = yield from body(message)
        return _framed(api_key, version, correlation_id, client_id, parts)

    return frame


def _framed(
    api_key: int, version: int, correlation_id: int, client_id: str | None, parts: list[Records]
) -> list[Records]:
    """Return a request with its size and header, whose body has these parts."""
    header_version = request_header_version(api_key, version)
    head = struct.pack(">hhi", api_key, version, correlation_id)
    if header_version:
        text = (client_id or "").encode()
        head += struct.pack(">h", -1 if client_id is None else len(text)) + text
    if header_version == 2:
        head += b"\0"
    return [struct.pack(">i", len(head) + sum(map(len, parts))) + head, *parts]


def parse_response_header(frame: Buffer, header_version: int) -> tuple[int, int]:
    """Return the correlation id and the offset of the body. Raises ProtocolViolation."""
    try:
        (correlation_id,) = struct.unpack_from(">i", frame, 0)
        offset = 4
        if header_version:
            offset = skip_tags(frame, 5, len(frame), frame[4])
    except (struct.error, IndexError) as fault:
        raise ProtocolViolation(f"response header: {fault}") from fault
    return correlation_id, offset


@cache
def decode_data(name: str, version: int) -> Decoder:
    """Return the decoder of an embedded schema, such as `consumer_protocol_subscription`.

    The 16-bit version that Kafka writes before such data is not part of it.
    """
    return compile_decoder(_known(data_class(name), version), version)


@cache
def decode_data_in_slices(name: str, version: int) -> SlicedDecoder:
    """Return a decoder for large data, a generator that returns the message."""
    return compile_decoder_in_slices(_known(data_class(name), version), version)


@cache
def encode_data(name: str, version: int) -> BodyEncoder:
    return compile_body_encoder(_known(data_class(name), version), version)


def data_class(name: str) -> type[Message]:
    return _load(name, DATA[name])


def request_class(api_key: int) -> type[Message]:
    return _of_api(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    return _of_api(api_key, "Response")


def known_versions(api_key: int) -> tuple[int, int]:
    """Return the first and the last version of the codec; the API registry has the served versions."""
    return request_class(api_key).VERSIONS


def _response_class(api_key: int, version: int) -> type[Message]:
    try:
        return _known(response_class(api_key), version)
    except ProtocolViolation as unknown:
        raise BrokerBug(str(unknown)) from unknown


def _of_api(api_key: int, kind: str) -> type[Message]:
    found = APIS.get(api_key)
    if found is None:
        raise ProtocolViolation(f"no schema for API key {api_key}")
    module, prefix = found
    return _load(module, prefix + kind)


def _load(module: str, name: str) -> type[Message]:
    return getattr(import_module(f"{messages.__name__}.{module}"), name)  # type: ignore[no-any-return]


def _known(message: type[Message], version: int) -> type[Message]:
    first, last = message.VERSIONS
    if not first <= version <= last:
        raise ProtocolViolation(f"{message.__name__} has no version {version}: {first} to {last} exist")
    return message
