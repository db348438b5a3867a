"""Where messages come from: queues of a live cluster or of a store directory, and ranges of them."""
