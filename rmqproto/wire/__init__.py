"""Frames, the forms of their headers, and signatures."""
