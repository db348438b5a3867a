"""Frames, their headers in each form, and who signed them."""
