"""Pure rules of what fits where: pods' requests, quota arithmetic, the scheduler's filters, placement."""
