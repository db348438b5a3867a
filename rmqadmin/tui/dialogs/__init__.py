"""Dialogs, which ask before they change something, and small overlays."""
