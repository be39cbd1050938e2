"""Which topics a connection has written to and read from, for the console's answer to "which clients use it".

Called by Produce and Fetch once they know that the client may use a topic. What a client repeats from request
to request is read, and noted, once. A connection that sends the very bytes that another one of its client id
has sent before may not be noted: the client id is.
"""

from typing import Final

from broker.api.requests.context import Connection

MAX_TOPICS: Final = 64
"""Topics of one connection, in each direction; ours. Further ones are not noted."""


def note_written(connection: Connection, topic: str) -> None:
    written = connection.topics_written
    if topic not in written and len(written) < MAX_TOPICS:
        connection.topics_written = written | {topic}


def note_read(connection: Connection, topic: str) -> None:
    read = connection.topics_read
    if topic not in read and len(read) < MAX_TOPICS:
        connection.topics_read = read | {topic}
