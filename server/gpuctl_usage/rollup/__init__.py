"""Pure functions that roll up holdings, capacities and measurements into hours, and hours into days."""
