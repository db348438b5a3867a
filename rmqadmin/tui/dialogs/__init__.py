"""What asks before it changes something, and small overlays."""
