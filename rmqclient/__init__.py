"""Clients of RocketMQ brokers and nameservers: blocking ones for tools, and producers and consumers on trio."""

import logging

# A library speaks through logging only to those who listen.
logging.getLogger(__name__).addHandler(logging.NullHandler())
