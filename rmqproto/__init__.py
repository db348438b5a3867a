"""Only RocketMQ's remoting protocol and record format: no sockets, no files, no clock, no trio."""
