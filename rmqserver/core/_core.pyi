from rmqserver.core.round_buffer import RoundBuffer as RoundBuffer
from rmqserver.core.simple import FrameCutter as FrameCutter
from rmqserver.core.simple import PlainPulls as PlainPulls
from rmqserver.core.simple import cut_signed as cut_signed
from rmqserver.core.simple import index_units as index_units
from rmqserver.core.simple import plain_records as plain_records
from rmqserver.core.simple import take_wanted as take_wanted
