arena serve update custom --name=chat --replicas=2
arena serve list
./bin/arena submit pytorchjob \
  --name=tune \
  --gpus=1 \
  --env MASTER_PORT=23456 \
  python train.py \
    --epochs 3 \
    --out /data
