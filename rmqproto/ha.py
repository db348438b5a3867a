"""The wire protocol between a master and its slaves: ``DefaultHAService`` of Apache RocketMQ 5.5.0, and of every 4.x
and 5.x. Neither side identifies itself, and only the next report acknowledges data."""

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

MASTER_ID = 0
"""The broker id of a master; slaves have higher ids."""

HA_PORT_DISTANCE = 1
"""The distance of the HA port above the broker's port, if ``haListenPort`` is not set."""

# Controller mode (``AutoSwitchHAService``) uses another protocol on the same port. The first number of a message is its
# kind. The first message in each direction is a handshake and its answer:
HANDSHAKE_STATE, TRANSFER_STATE = 1, 2

# Slave to master, a handshake:
# +-------+------------------------------+-------------------------+-----------------------------+
# | i32 1 | i16 1: begin with last file  | i16 1: never to be in   | i64 the slave's id at its   |
# |       | alone, where the slave has   | the set of brokers in   | controller                  |
# |       | nothing                      | sync                    |                             |
# +-------+------------------------------+-------------------------+-----------------------------+
HANDSHAKE = struct.Struct(">ihhq")

# Master to slave, the answer; k epochs follow:
# +-------+--------------------------+----------------------------+--------------------------+
# | i32 1 | i32 12 k: bytes behind   | i64 end of the master's    | i32 its last epoch       |
# |       | this head                | commit log                 |                          |
# +-------+--------------------------+----------------------------+--------------------------+
HANDSHAKE_ANSWER = struct.Struct(">iiqi")

# +------------+-------------------------------------+
# | i32 epoch  | i64 log offset where it begins      |
# +------------+-------------------------------------+
EPOCH = struct.Struct(">iq")

# Slave to master, a report:
# +-------+-----------------------------------+
# | i32 2 | i64 end of the slave's commit log |
# +-------+-----------------------------------+
SET_REPORT = struct.Struct(">iq")

# Master to slave, a transfer; without bytes it is a sign of life:
# +-------+--------------------+-------------------+-----------------------+--------------------+--------------------+
# | i32 2 | i32 number of      | i64 log offset of | i32 epoch of the      | i64 log offset     | i64 log offset up  |
# |       | bytes              | the first byte    | bytes                 | where that begins  | to which all have  |
# |       |                    |                   |                       |                    | the log: confirmed |
# +-------+--------------------+-------------------+-----------------------+--------------------+--------------------+
# bytes of the commit log follow
SET_TRANSFER_HEAD = struct.Struct(">iiqiqq")
