"""One server process: its services, how clients come in, its ready line and its clean end."""
