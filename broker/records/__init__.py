"""Record batches, version 2: the unit that producers send, the log stores and consumers read.

`header` names the 61 bytes in front, `validate` says whether a batch may be taken, `walk` reads records out
of it, `build` makes one, `compression` opens and closes what lies behind the header. Pure: bytes in, values
out.
"""
