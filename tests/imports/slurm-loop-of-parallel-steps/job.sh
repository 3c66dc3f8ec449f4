#!/bin/bash
#SBATCH --job-name=copies
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=16
for i in $(seq 1 3)
do
  srun --nodes=1 --ntasks=16 ./solver > solver$i.txt &
done
wait
