"""Kafka's wire protocol: bytes to values and back, independent of sockets.

api_key          API keys, their names, and their header versions
codec            the entry point: decoders and encoders by API key and version
compile_decode   compiles decoders, which check every length against the remaining bytes
compile_encode   compiles encoders, which do not copy large records
emitter, varint  shared code of the compilers and of the compiled functions
schema           Struct, Message, Field: the base classes of messages/
messages/        one module per API, or for APIs of which one reads back what another writes; derived from
                 kio's schemas by derive, do not edit
"""
