"""The parts that a server is put together from. `server` and `app` build, start and close them.

`control` and `views` need no log, so that a server without storage can use them. `storage` is the broker's.
"""
