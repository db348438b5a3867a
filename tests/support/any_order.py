"""mqadmin prints in the order of Java's hash maps; ours sorts. What is compared disregards the order, and nothing
else."""

import re


def in_any_order(text: str) -> list[str]:
    """Its lines and the members of its lists and maps, sorted."""
    return sorted(re.split(r"\n|, ?|[{}\[\]]", text))
