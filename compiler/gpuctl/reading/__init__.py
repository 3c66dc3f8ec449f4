"""What is in the cluster, as people and programs ask for it: jobs, pools, nodes, quotas, logs. Nothing is changed."""
