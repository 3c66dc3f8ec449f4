"""Lookups for requests: jobs, nodes, quotas, logs, metrics and usage that the caller may see."""
