"""What the dashboard remembers of a cluster from one refresh to the next, for all its screens. It asks nobody and knows
no Textual."""
