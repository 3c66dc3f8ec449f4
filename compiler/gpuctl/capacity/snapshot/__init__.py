"""The snapshot of a cluster: its document, and the entry of each object in it."""
