#!/bin/bash
#SBATCH --job-name=tokenize
#SBATCH --gpus=4
#SBATCH --environment=/capstor/images/data.toml
#SBATCH --uenv=prgenv-gnu/24.11:v1
#SBATCH --view=default
srun --environment=/capstor/images/data.toml python tokenize.py --workers $SLURM_GPUS
