"""From what a user asks for to a frozen plan."""
