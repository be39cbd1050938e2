"""The common parts of the handlers of groups: replies of the coordinator, offsets to commit."""
