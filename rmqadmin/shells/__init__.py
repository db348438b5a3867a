"""Completion files, a module a shell; ``completions`` writes them."""
