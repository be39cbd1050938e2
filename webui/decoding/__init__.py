"""Decodes keys and values of records with a schema that a person gives: Avro, or Protocol Buffers.

`decoder` is the client, `worker` the process that decodes: schemas and records come from people and
producers, and a few bytes of them can demand gigabytes, or nest without end.
"""
