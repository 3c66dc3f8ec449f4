"""Applying documents to a cluster: read the live state (state), plan the changes (plan), carry them out (run)."""
