"""From a user's request to a frozen plan."""
