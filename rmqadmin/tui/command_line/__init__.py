"""The line that ``:`` opens, what it completes and runs, and the palette of commands for the selected row."""
