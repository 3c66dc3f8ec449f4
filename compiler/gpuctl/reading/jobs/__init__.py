"""Jobs and their pods: names, status, rows, details, events and history."""
