"""What the tools cost: a command, a line of the shell, and a redrive."""
