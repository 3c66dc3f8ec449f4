"""Namespaces, quotas and Kueue's queues."""
