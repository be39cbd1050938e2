"""Disk tasks: `tasks` flushes, applies retention and writes the metadata log, `log_mover` moves partitions
between log directories. No request waits for them.
"""
