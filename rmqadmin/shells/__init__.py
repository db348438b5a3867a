"""Completion files, one module per shell; ``completions`` writes them."""
