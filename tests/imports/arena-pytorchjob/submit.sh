#!/bin/bash
IMAGE=registry.example.com/ai/pytorch:2.5
arena submit pytorchjob \
    --name=pytorch-dist \
    --namespace=vision \
    --gpus=1 \
    --workers=3 \
    --image=$IMAGE \
    --data=training-data:/mnist_data \
    --data-dir /fast:/scratch \
    --env NCCL_DEBUG=INFO -e LR=2e-5 \
    --sync-mode=git --sync-source=https://git.example.com/mnist.git \
    --tensorboard --logdir=/logs \
    --gang --priority high \
    --toleration all --selector gpu=a100 \
    --image-pull-secret=registry --retry 2 \
    --running-timeout=12h --share-memory 16Gi \
    --label team=vision \
    "python /root/code/mnist.py --backend nccl"
echo submitted
