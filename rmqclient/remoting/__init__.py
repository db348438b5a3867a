"""Connections of the clients: frames, requests under way, and the address of each request."""
