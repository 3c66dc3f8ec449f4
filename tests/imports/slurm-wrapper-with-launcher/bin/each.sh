#!/bin/sh
export WORLD=$SLURM_NTASKS PART=$SLURM_PROCID
exec "$@"
