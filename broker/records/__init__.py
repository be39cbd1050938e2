"""Record batches of version 2: the unit that producers send, the log stores and consumers read.

`header` defines the 61-byte header, `validate` checks a batch, `walk` reads its records, `build` creates a
batch, and `compression` handles the compressed records. Pure functions on bytes.
"""
