"""Changes by requests: of jobs, pools, quotas and labels, by the plans of the command line."""
