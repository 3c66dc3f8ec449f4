arena submit pytorch --name=one --image=registry.local/train:latest --image-pull-policy=Always --cpu=4 --memory=8Gi "python a.py"
arena submit pytorch --name=two --image=registry.local/train:1 --image-pull-policy=IfNotPresent --cpu=4 --memory=8Gi "python b.py"
