"""A web server whose requests share GPUs with the jobs of the shell, in one line with them:

    uvicorn gpu_api:app
    chappe acquire gpu -- python train.py

A request that is cancelled, since its client has gone, leaves the line; a server that is killed leaves its permits to the next.
"""

import chappe
from chappe import aio
from fastapi import FastAPI, HTTPException

app = FastAPI()
gpus = chappe.Pool("gpu", ["cuda:0", "cuda:1"])


async def model(gpu, text):
    return f"{text} on {gpu}"


@app.get("/ask")
async def ask(text: str, patience: float = 30.0):
    try:
        async with aio.acquire(gpus, patience) as gpu:
            return {"answer": await model(gpu, text)}
    except TimeoutError as late:
        raise HTTPException(503, str(late)) from late
