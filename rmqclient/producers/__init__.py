"""The producers that programs use, and what they are made of: the choice of a queue, request and reply, sequences."""
