"""Options and context managers that several commands share."""
