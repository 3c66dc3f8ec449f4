#!/bin/bash
torchrun --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID --nproc_per_node 8 train.py "$@"
