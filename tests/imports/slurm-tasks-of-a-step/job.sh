#!/bin/bash
#SBATCH --job-name=ranks
#SBATCH --nodes=2
export FIRST=a
srun --ntasks-per-node=4 \
  bash -c 'echo $SLURM_PROCID of $SLURM_NTASKS'
