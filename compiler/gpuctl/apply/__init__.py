"""Bringing a cluster to what documents say: what is there (state), what would be done (plan), doing it (run)."""
