"""What the handlers of transactions have in common."""
