"""What the dashboard remembers of a cluster between refreshes, for all its screens. It asks no server and does not use
Textual."""
