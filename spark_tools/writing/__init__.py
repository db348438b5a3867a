"""Frames to topics: columns, rows as messages, deliveries, and what no broker takes."""
