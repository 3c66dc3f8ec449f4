"""Execution of plans, with a journal so that a killed run loses no object."""
