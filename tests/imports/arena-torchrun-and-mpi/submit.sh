arena submit pytorch --name a --gpus 8 --workers 2 --image registry.example.com/a:1 "torchrun --nproc_per_node 8 --nnodes 2 train.py"
arena submit mpijob --name=b --gpus=1 --workers=2 --selector gpu=v100 --image=registry.example.com/b:1 "mpirun python train.py && echo done"
arena submit tfjob --name=c --ps=1 --workers=2 --image=registry.example.com/c:1 "python tf.py"
