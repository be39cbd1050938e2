"""Bytes and values: Kafka's wire protocol, without a socket in sight.

header           what stands before a request, and before an answer
api_key          the keys, their names, and which header each version has
codec            the way in: decoders and encoders by API key and version
compile_decode   writes the source of a decoder, every length checked against the bytes that are left
compile_encode   writes the source of an encoder, whose records stay where they are
emitter, varint  what the compilers, and what the compiled functions, share
schema           Struct, Message, Field: what messages/ is made of
messages/        one module per API, derived from kio's schemas by derive (and derive_text), never edited
"""
