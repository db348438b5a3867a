"""Perms as people see and write them. ``rmqproto.perm`` has the bits."""

from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import whole_number
from rmqproto.perm import PERM_INHERIT, PERM_LETTERS, PERM_MAX, PERM_READ, PERM_WRITE, perm_text

WORDS = {PERM_READ: "read", PERM_WRITE: "write", PERM_INHERIT: "inherit"}


def perm_words(perm: int) -> str:
    """``RW (6)``: letters as people write them, and the number in configurations; ``- (0)`` for nothing."""
    return f"{perm_letters(perm) or '-'} ({perm})"


def perm_letters(perm: int) -> str:
    """``RW`` for 6, as people write it; empty for nothing."""
    return perm_text(perm).replace("-", "")


def perm_of_letters(text: str) -> int | None:
    """The perm for ``RW``, in any case and order; None for a text that is not such letters, each once."""
    written = text.strip().upper()
    letters = set(written)
    if not letters or letters - PERM_LETTERS.keys() or len(letters) < len(written):
        return None
    return sum(PERM_LETTERS[letter] for letter in letters)


def parse_perm(text: str) -> int:
    """The perm for ``6``, or for ``RW`` in any case and order. UsageError, in mqadmin's words, for a perm that no topic
    may have."""
    perm = perm_of_letters(text)
    if perm is not None:
        return perm
    number = whole_number(text.strip(), PERM_MAX)
    if number is not None:
        return number
    raise UsageError(f"topicPermission value: {text} is invalid.", hint="Write R (4), W (2), RW (6) or RWX (7).")
