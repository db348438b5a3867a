"""The broker by itself, most of it beside Apache's."""
