"""The parts that a server is put together from. `server` and `app` build, start and close them.

`control` needs no log, so that a server without storage can use it. `storage` is the broker's.
"""
