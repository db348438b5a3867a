"""A second way to evaluate an expression. It walks the tree as Apache's ``evaluate`` methods do, with one rule for each
node and no regard for speed."""

from collections.abc import Mapping

from rmqproto.filters.sql92.java_values import JavaError, Value, compare, double, double_order
from rmqproto.filters.sql92.tree import (
    Comparison,
    Constant,
    In,
    Logic,
    Negation,
    Node,
    Not,
    Presence,
    Property,
    TextTest,
)


def matches(node: Node, properties: Mapping[str, str]) -> bool:
    try:
        return evaluate(node, properties) is True
    except JavaError:
        return False


def evaluate(node: Node, properties: Mapping[str, str]) -> Value:
    match node:
        case Constant(value):
            return value
        case Property(name):
            return properties.get(name)
        case Negation(operand):
            value = evaluate(operand, properties)
            if value is None or isinstance(value, bool | str):
                return None
            return type(value)(-value)
        case Presence(operand):
            return None if evaluate(operand, properties) is None else False
        case Not(operand):
            value = evaluate(operand, properties)
            return None if value is None else not value
        case In(operand, values, is_negated):
            value = evaluate(operand, properties)
            return None if value is None else (value in values) is not is_negated
        case TextTest():
            return _text_test(node, properties)
        case Logic(is_and, terms):
            return _logic(is_and, terms, properties)
        case Comparison(symbol, left, right):
            return _comparison(symbol, left, right, properties)


def _text_test(node: TextTest, properties: Mapping[str, str]) -> bool:
    if not node.literal:
        return False
    value = evaluate(node.operand, properties)
    if not isinstance(value, str):
        return False
    if node.word == "CONTAINS":
        return (value.find(node.literal) >= 0) is not node.is_negated
    size = len(node.literal)
    part = value[:size] if node.word == "STARTSWITH" else value[max(len(value) - size, 0) :]
    return (part == node.literal) is not node.is_negated


def _logic(is_and: bool, terms: list[Node], properties: Mapping[str, str]) -> bool | None:
    """Combines the terms in pairs from the left. It stops at a value that decides; a null does not."""
    result: Value = evaluate(terms[0], properties)
    for term in terms[1:]:
        if result is (not is_and):
            return result
        value = evaluate(term, properties)
        if value is (not is_and):
            result = value
        elif result is None or value is None:
            result = None
        else:
            result = is_and
    assert result is None or isinstance(result, bool)
    return result


def _comparison(symbol: str, left: Node, right: Node, properties: Mapping[str, str]) -> bool | None:
    left_value = evaluate(left, properties)
    if symbol == "==":
        right_value = evaluate(right, properties)
        if left_value is None and right_value is None:
            return True
        if left_value is None:
            return None
        return right_value is not None and compare(left_value, right_value) == 0
    if left_value is None:
        return None
    right_value = evaluate(right, properties)
    if right_value is None:
        return None
    if isinstance(left_value, str) and isinstance(right_value, str):
        order = double_order(double(left_value), double(right_value))
    else:
        order = compare(left_value, right_value)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[symbol]
