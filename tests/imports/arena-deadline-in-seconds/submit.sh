arena submit rayjob --name=tune --image=registry.example.com/ray:2 --cpu=8 --memory=32Gi --active-deadline-seconds=5400 "python tune.py"
