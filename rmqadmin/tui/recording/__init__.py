"""Records what the dashboard sees in a file, and replays it."""
