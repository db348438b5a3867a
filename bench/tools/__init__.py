"""The tools: what a command, a line of the shell and a redrive cost."""
