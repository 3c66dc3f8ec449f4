arena serve custom --name=qwen --version=v1 --gpus=1 --replicas=2 --port=8000 --restful-port=8080 \
  --image=vllm/vllm-openai:v0.9.1 --data=models:/models --gpumemory=16 --expose-service \
  "vllm serve /models/qwen --port 8000"
