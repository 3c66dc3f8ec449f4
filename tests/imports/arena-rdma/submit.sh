arena submit pytorchjob --name=a --rdma --image=registry.example.com/a:1 "torchrun train.py"
