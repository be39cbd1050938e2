"""The version of this broker, where reading the package's metadata would cost a start 40 ms. A test
compares the two.
"""

VERSION = "0.1.0"
