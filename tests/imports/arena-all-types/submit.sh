#!/bin/bash
# Estimator with parameter servers
arena submit tfjob --name=tf-estimator --gpus=1 --workers=2 --workerImage=registry.example.com/tf:2.15 --worker-cpu 8 --worker-memory 32Gi \
  --ps=1 --ps-image=registry.example.com/tf:2.15-cpu --psCpu=2 --ps-memory=4Gi --chief --chief-cpu 2 --evaluator \
  --gputopology --worker-selector gpu=a100 --success-policy AllWorkers --starting-timeout 10m --running-timeout 2h22m \
  --tensorboard --logdir=/training_logs --data=training-data:/training_logs --clean-task-policy=None \
  "python code/estimator.py --data /training_logs"
arena submit mpijob --name=horovod-bench --gpus=8 --workers=2 --image=registry.example.com/horovod:0.28 --cpu=64 --memory=400Gi \
  --gang --gputopology --mounts-on-launcher --rdma --env NCCL_DEBUG=INFO --shell=bash \
  "mpirun python /examples/bench.py --batch 64"
arena submit deepspeedjob --name=ds --gpus=1 --workers=2 --image=registry.example.com/ds:0.15 --cpu 8 --memory 64Gi \
  --launcher-selector zone=a --job-backoff-limit=3 --job-restart-policy=OnFailure --ssh-secret=keys --working-dir=/root \
  --model-name=llm --model-source=pvc://x "deepspeed /workspace/train.py"
arena serve custom --name=fast --version=a1 --gpus=1 --replicas=1 --port=8000 --image=registry.example.com/srv:1 \
  --cpu 4 --memory 16Gi --temp-dir cache:/tmp/cache --liveness-probe-action httpGet --liveness-probe-action-option "path: /health" \
  --max-surge 1 --env-from-secret tok --command "python serve.py --port 8000"
arena submit rayjob --name=ray --image=registry.example.com/ray:2 --shutdown-after-finished --head-cpu=2 --worker-gpu 1 --worker-replicas 2 --active-deadline-seconds 10h --share-memory 2Gi "python main.py"
arena submit pytorchjob -n team --name sft --gpus 8 --workers 4 --cpu 64 --memory 500Gi --image $IMAGE -d $CLAIM:/data -e A=1 -l team=nlp -p high --nproc-per-node=8 --toleration=all "torchrun train.py"
