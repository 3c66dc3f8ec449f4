"""Read-only queries over the cluster: jobs, pools, nodes, quotas, logs and the causes of failures."""
