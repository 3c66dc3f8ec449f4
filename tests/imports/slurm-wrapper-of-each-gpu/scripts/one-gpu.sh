#!/bin/bash
# $SLURM_JOB_USER is in a comment
export ROCR_VISIBLE_DEVICES=$SLURM_LOCALID
export SEED=$((SLURM_PROCID + ${SLURM_JOB_UID:-0}))
echo "rank ${SLURM_PROCID} of $SLURM_NTASKS"
exec "$@"
