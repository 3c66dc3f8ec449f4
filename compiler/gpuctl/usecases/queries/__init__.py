"""Read-only commands: jobs, logs, nodes, pools, queues and quotas, from a cluster or a service."""
