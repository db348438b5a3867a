"""The line that ``:`` opens for a place, and the palette, which runs commands for the selected row."""
