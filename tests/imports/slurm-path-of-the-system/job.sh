#!/bin/bash
#SBATCH --job-name=munge
#SBATCH --partition=
#SBATCH --cpus-per-task=2
singularity exec --bind /run/munge/munge.socket.2,/data:/data docker://registry.example.com/tool:1 ./run.sh
