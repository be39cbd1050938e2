"""Record batches of version 2: the unit that producers send, the log stores and consumers read.

`header` defines the 61-byte header, `validate` checks a batch, `walk` reads its records and `inspect` checks
them, `build` creates a batch. `compression` has the codecs; `packing` applies them to whole batches. Pure
functions on bytes.
"""
