"""Serve a model to other programs, and be one of them: requests need the standard library alone.

python serving.py model.rknn
"""

import json
import math
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

(model,) = sys.argv[1:]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
url = f"http://{address}/v2"

command = [sys.executable, "-m", "anynpu.cli", "serve", model, "--http", address, "--grpc", ""]
with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
    try:
        while server.poll() is None:
            try:
                urlopen(f"{url}/health/ready").close()
                break
            except URLError:
                time.sleep(0.05)

        named = f"{url}/models/{Path(model).stem}"
        with urlopen(named) as answer:
            inputs = json.load(answer)["inputs"]
        for each in inputs:
            print(f"input {each['name']}: {each['datatype']} {each['shape']}")
            each["data"] = [0] * math.prod(each["shape"])
        with urlopen(f"{named}/infer", json.dumps({"inputs": inputs}).encode()) as answer:
            for each in json.load(answer)["outputs"]:
                largest = max(each["data"])
                print(f"output {each['name']}: {each['shape']}, the largest value is {largest:g}")
    finally:
        server.terminate()
