"""The tasks that keep the disks: `tasks` flushes, retains and writes the metadata, `log_mover` moves
partitions between directories. Nothing here is on a request's way.
"""
