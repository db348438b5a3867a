"""Proofs of identity are compared in constant time, so that the time does not tell which byte is wrong. Read from the
sources."""

import ast
import re
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGES, ROOT

PROOF = re.compile(r"(^|_)(secret|secret_key|password|signature|token|digest|mac|given)$")
"""The endings of names that hold proofs. Names of fields are constants in capital letters."""

ALLOWED = {
    "rmqadmin/core/access/users.py: before.password != after.password",  # whether an administrator changes it
    "rmqadmin/cli/parsing/mqadmin_argv.py: token == '--'",  # words of a command line
    "rmqadmin/cli/parsing/mqadmin_argv.py: token == '-'",
}

HAS_ANY = re.compile("secret|password|signature|digest|token|hmac")
"""A file that knows of proofs contains one of these; other files need not be parsed."""

COMPARING = {
    "rmqproto/wire/signing.py": {"has_signed", "has_signed_content"},
    "rmqadmin/tui/browser/browser_server.py": {"knows"},
    "rmqreplay/sending/permit_service.py": {"answer"},
}
"""The functions that compare proofs."""


def is_proof(node: ast.expr) -> bool:
    """Whether the expression is a proof; so are ``signature(...)``, ``digest()[4:]`` and ``given.encode()``."""
    if isinstance(node, ast.Call | ast.Subscript | ast.Await):
        inner = node.func if isinstance(node, ast.Call) else node.value
        return is_proof(inner) or (isinstance(inner, ast.Attribute) and is_proof(inner.value))
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return bool(PROOF.search(name))


def leaks(tree: ast.AST) -> list[str]:
    """Comparisons of proofs that stop at the first wrong byte."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            if any(map(is_proof, [node.left, *node.comparators])):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Match) and is_proof(node.subject):
            found.append(f"match {ast.unparse(node.subject)}")
    return found


@pytest.mark.parametrize(
    "text",
    ["given == self.signature(x)", "user.password != b", "hmac.new(k).digest()[:4] == b", "token.encode() == b",
     "match secret_key:\n case 'x': pass"],
)  # fmt: skip
def test_a_plain_comparison_is_seen(text: str) -> None:
    assert leaks(ast.parse(text))


def test_no_proof_is_compared_by_equality() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {leak}"
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        if HAS_ANY.search(text := file.read_text())
        for leak in leaks(ast.parse(text))
    }
    assert found == ALLOWED


@pytest.mark.parametrize("path", COMPARING)
def test_who_looks_at_proofs_compares_digests(path: str) -> None:
    functions = {
        node.name: ast.unparse(node)
        for node in ast.walk(ast.parse(Path(ROOT / path).read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert COMPARING[path] <= {name for name, text in functions.items() if "compare_digest(" in text}
