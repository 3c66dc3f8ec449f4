#!/bin/tcsh
#SBATCH --job-name md
#SBATCH --cpus-per-task=4
module load lammps
@ ranks = 36 / 2
cp ../input/* .
time srun -n $ranks lmp -in large.in >& md.log
