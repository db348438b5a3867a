"""One file a screen, one screen a noun."""
