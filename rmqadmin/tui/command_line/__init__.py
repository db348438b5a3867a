"""The line that ``:`` opens, its completion and commands, and the palette of commands for the selected row."""
