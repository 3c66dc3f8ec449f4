"""Imports batch scripts of Slurm as trainings."""
