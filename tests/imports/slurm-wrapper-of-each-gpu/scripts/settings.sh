export OUT_DIR=/results/$SLURM_JOB_NAME
