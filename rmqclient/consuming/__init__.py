"""The inside of a consumer: which queues are ours, what is pulled, and what the listener has of it."""
