"""RocketMQ's remoting protocol and record format, and nothing else: no sockets, no files, no clock, no trio."""
