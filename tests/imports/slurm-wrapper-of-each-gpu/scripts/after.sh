#!/bin/sh
SLURM_OUT=/results
ls $SLURM_OUT
