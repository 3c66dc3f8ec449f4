#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --cpus-per-task=1
mkdir -p jobs
#SBATCH --mem=1G
cat > jobs/one.sh <<JOB
#!/bin/bash
#SBATCH --job-name=one
python train.py
JOB
bash jobs/one.sh
