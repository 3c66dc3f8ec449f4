"""The rules by which the API server completes and refuses pods: LimitRanges, Pod Security, quotas."""
