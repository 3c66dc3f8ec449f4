"""Plans: the decisions and checks before anything is written."""
