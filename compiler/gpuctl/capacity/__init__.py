"""What fits where: pods' requests, quota arithmetic, the scheduler's rules, placement. Pure."""
