"""Things that an operator can start from; README.md says what each is, and which test runs it."""
