"""Logs of a job's containers: parsing, reading, merging and following them."""
