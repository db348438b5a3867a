"""Connections of the clients: frames, requests under way, and which address a request goes to."""
