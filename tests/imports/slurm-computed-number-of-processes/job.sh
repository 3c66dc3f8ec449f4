#!/bin/bash
#SBATCH --job-name=sinn
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
RANKS=$((SLURM_NNODES * 8))
srun -N $SLURM_NNODES -n $SLURM_NNODES ./warm-up
srun -N $SLURM_NNODES -n ${RANKS} --gpus-per-task=1 python train.py
srun --ntasks-per-node=$SLURM_GPUS_PER_NODE python evaluate.py
