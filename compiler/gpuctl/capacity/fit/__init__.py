"""The verdict on each job: whether its pods fit, and if not, why and when they will."""
