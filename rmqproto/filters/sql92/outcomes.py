"""Whether a node's value can be null or an error. Apache continues after a null, and may then fail."""

from __future__ import annotations

from rmqproto.filters.sql92.tree import NULL, Comparison, Constant, Logic, Negation, Node, Not, Property, TextTest


def can_be_null(node: Node) -> bool:
    if isinstance(node, Not):
        return can_be_null(node.operand)
    if isinstance(node, Logic):
        return any(map(can_be_null, node.terms))
    if isinstance(node, Constant):
        return node.value is None
    if isinstance(node, Comparison):
        return node.right != NULL and not (node.symbol == "==" and isinstance(node.left, Constant))
    return not isinstance(node, TextTest)


def can_fail(node: Node) -> bool:
    if isinstance(node, Not | Negation | TextTest):
        return can_fail(node.operand)
    if isinstance(node, Logic):
        return any(map(can_fail, node.terms))
    if not isinstance(node, Comparison):
        return False
    if node.right == NULL:
        return can_fail(node.left)
    return node.symbol != "==" or not all(map(_is_text, (node.left, node.right)))


def _is_text(node: Node) -> bool:
    return isinstance(node, Property) or (isinstance(node, Constant) and isinstance(node.value, str))


def before_one_that_fails(terms: list[Node]) -> list[bool]:
    """For each term, whether a later one can fail."""
    found: list[bool] = []
    can = False
    for term in reversed(terms):
        found.append(can)
        can = can or can_fail(term)
    return found[::-1]
