"""SQL92 expressions over a message's properties, as Apache's brokers understand them (module rocketmq-filter, 5.5.0).

``lexer`` and ``parser`` read text and build a ``tree``, which refuses what Apache refuses. ``compiler`` makes a
function of the tree: ``conditions`` writes its expressions and knows which can be null or fail. ``java_values`` has
Java's numbers and comparisons, and what a broker answers.
"""

from rmqproto.filters.sql92.compiler import compile_sql92, compile_sql92_for_records, compile_sql92_for_values
from rmqproto.filters.sql92.java_values import Sql92Error

__all__ = ["Sql92Error", "compile_sql92", "compile_sql92_for_records", "compile_sql92_for_values"]
