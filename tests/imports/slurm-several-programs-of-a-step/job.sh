#!/bin/bash
#SBATCH --job-name=coupled
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
cat > layout.conf <<MAP
0 ./ocean
1 ./ice
MAP
srun --multi-prog layout.conf > coupled.log
srun -n 1 ./ocean : -n 1 ./ice
./collect
