"""What completes command lines: a short file for each shell, which asks the program, and what they all share."""
