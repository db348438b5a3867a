"""SQL92 expressions over a message's properties, as Apache's brokers understand them (module rocketmq-filter, 5.5.0).

``lexer`` and ``parser`` read text, ``tree`` is what they build and refuses what Apache refuses. ``compiler`` makes a
function of it: ``conditions`` writes its expressions, ``forms`` how they get at properties, ``outcomes`` knows what can
be null and what can fail. ``java_values`` are the numbers and comparisons of Java, ``error`` is what a broker answers.
"""

from rmqproto.filters.sql92.compiler import compile_sql92, compile_sql92_for_records, compile_sql92_for_values
from rmqproto.filters.sql92.error import Sql92Error

__all__ = ["Sql92Error", "compile_sql92", "compile_sql92_for_records", "compile_sql92_for_values"]
