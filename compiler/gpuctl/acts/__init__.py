"""Small writes that need no plan: labels of nodes, members of pools, pausing."""
