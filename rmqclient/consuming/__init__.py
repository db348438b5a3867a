"""Internals of consumers: the allocation of queues, pulling, and the messages that the listener has."""
