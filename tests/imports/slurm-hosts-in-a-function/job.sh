#!/bin/bash
#SBATCH --job-name=tune
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
start_ray() {
  nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
  mapfile -t all_nodes <<< "$nodes"
  echo "the head is ${all_nodes[0]}"
  ./prepare --data /data
  $1
}
cd /work && hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
start_ray "python tune.py"
