"""One server process: what it hosts, how clients come in, its ready line and its clean end."""
