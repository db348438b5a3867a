"""Consumers that pop: the messages they hold, acknowledgements, and lite topics."""
