arena --loglevel info --namespace nlp submit pytorch --name=tune --gpus=2 --workers=2 --cpu=8 --memory=64Gi \
  --image=registry.example.com/llm/train:v1 --image-pull-secrets=one --image-pull-secrets=two \
  --selector gpu_node=ok --toleration dedicated=nlp:NoSchedule,Equal --toleration spare \
  --sync-mode=rsync --sync-source=10.0.0.1::data/set --env=GIT_SYNC_BRANCH=main --data claim:/data:ro --shell bash \
  "cd /work &&
   python train.py"
/usr/local/bin/arena --config=/etc/kube.conf submit mpijob --name=reduce --device=amd.com/gpu=4 --workers=2 --cpu=8 --memory=64Gi \
  --image=registry.example.com/mpi:1 --dry-run -- mpirun -np 8 ./reduce
arena submit pytorchjob --name=note --gpus=1 --cpu=4 --memory=16Gi --image=registry.example.com/llm/train:v1 "--annotation=note=first
second" "python train.py"
