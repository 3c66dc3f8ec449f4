arena serve custom --name=style --gpumemory=6 --replicas=2 --restful-port=5000 --metrics-port=9100 --cpu=4 --memory=16Gi \
  --image=registry.example.com/style:2 "python app.py"
arena serve triton --name=ocr --gpus=1 --cpu=4 --memory=16Gi --image=registry.example.com/triton:24.05 --http-port=8000 \
  --model-repository=/models --data=models:/models --load-model=ocr
