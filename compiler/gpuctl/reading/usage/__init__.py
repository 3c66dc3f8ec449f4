"""Usage of GPUs over time, its costs, and the monthly report."""
