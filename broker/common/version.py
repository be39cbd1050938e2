"""The version of this broker, as a constant: reading package metadata would slow the start by 40 ms. A test
compares the two. And the version of Apache Kafka that this broker follows.
"""

from typing import Final

VERSION: Final = "0.1.0"

KAFKA_VERSION: Final = "4.4.0"
"""Its tables are Weir's (tests/upstream compares them with the jars), and its brokers, tools and clients are
those of the tests, the documentation and the benchmarks: the pom.xml files receive it from here.
"""
