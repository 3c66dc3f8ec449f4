arena submit sparkjob --name=count --image=registry.example.com/spark:1 --main-class=org.example.Count --jar=local:///opt/count.jar
arena submit volcanojob --name=steps --image=registry.example.com/steps:1 --task-name=step "./step"
arena submit rayjob --name=tune --image=registry.example.com/ray:1 "python tune.py"
