"""What the API server adds to pods, and refuses: LimitRanges, Pod Security, quotas."""
