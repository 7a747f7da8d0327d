"""Watch a camera, or a stream's URL, and say what comes and goes; ends after some frames if asked.

python camera.py 0 yolov8n.rknn yolov8 [FRAMES]
"""

import itertools
import sys

import anynpu
from anynpu.vision import Detector
from anynpu.vision.frames import open_frames

source, model, head, *limit = sys.argv[1:]

with (
    anynpu.InferenceSession(model, provider_options={"output_dtype": "model"}) as session,
    open_frames(source) as frames,
):
    detector = Detector(session, head, threshold=0.51)
    before: set[str] = set()
    pictures = itertools.islice((frame.pixels for frame in frames), *map(int, limit))
    for number, found in enumerate(detector.stream(pictures)):
        now = set(found.names)
        for name in sorted(now - before):
            print(f"frame {number}: {name} came")
        for name in sorted(before - now):
            print(f"frame {number}: {name} left")
        before = now
