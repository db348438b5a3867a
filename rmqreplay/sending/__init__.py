"""Sending each message once: a ledger, permits, and a look at the target."""
