"""What makes each message go out once: a ledger, permits, and a look at the target."""
