"""Consumers that pop: what they hold, how it is acknowledged, and lite topics."""
