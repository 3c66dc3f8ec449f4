#!/bin/bash
#SBATCH --job-name=lora
#SBATCH --accel-bind=g
export LR=1e-4
srun bash -lc 'torchrun --nproc_per_node=${CARDS} --nnodes=${MACHINES} tune.py --lr $LR'
awk '{ print $field }' log.txt
cp "$0" /results/
3>&-
