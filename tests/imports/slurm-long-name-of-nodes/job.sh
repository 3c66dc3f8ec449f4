#!/bin/bash
#SBATCH --job-name=pretraining_of_a_model_with_a_very_long_name
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --export=ALL,MASTER_PORT=29800
srun python train.py
