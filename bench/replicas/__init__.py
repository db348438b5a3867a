"""Sets of brokers: what copies cost, and what clients notice of a lost master."""
