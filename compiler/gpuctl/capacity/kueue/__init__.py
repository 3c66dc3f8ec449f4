"""Kueue: its configuration and quotas, and the admission of jobs in queues."""
