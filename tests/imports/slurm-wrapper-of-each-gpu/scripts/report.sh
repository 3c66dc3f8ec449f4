#!/bin/sh
echo "node $SLURM_NODEID: $(scontrol show hostnames)"
