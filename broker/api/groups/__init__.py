"""What the handlers of groups have in common: replies of the coordinator, offsets to commit."""
