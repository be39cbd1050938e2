"""Things that an operator can start from: each file is explained in docs/ and tested in tests/examples."""
