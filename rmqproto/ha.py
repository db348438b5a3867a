"""The wire between a master and its slaves: ``DefaultHAService`` of Apache RocketMQ 5.5.0, and of every 4.x and 5.x.
Neither side says who it is, and nothing is acknowledged but by the next report."""

from __future__ import annotations

import struct

# Slave to master, a report:
# +-----------------------------------+
# | i64 end of the slave's commit log |
# +-----------------------------------+
REPORT = struct.Struct(">q")

# Master to slave, a transfer; without bytes it is a sign of life:
# +-------------------------------------+---------------------+---------------------------+
# | i64 log offset of the first byte    | i32 number of bytes | bytes of the commit log   |
# +-------------------------------------+---------------------+---------------------------+
TRANSFER_HEAD = struct.Struct(">qi")

HA_PORT_DISTANCE = 1
"""How far above the broker's port its HA port is, where ``haListenPort`` says nothing."""
