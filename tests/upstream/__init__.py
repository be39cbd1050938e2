"""What a version of Apache Kafka consists of, read from its jars.

`jars` fetches and reads them, and `compare` says what differs between two. `make upstream` prints what the
newest Kafka changes against the one that Weir follows, and `make upstream ARGS=4.3.0` what that one does. The
tests compare Weir's own tables with those of the version that it follows.
"""
