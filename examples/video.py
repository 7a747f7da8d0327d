"""Count what comes through a video, with every core at work, and write it with boxes.

python video.py traffic.mp4 yolov8n.rknn found.mp4 [HEAD]
"""

import sys
import time
from collections import Counter

import anynpu
from anynpu.vision import Detector
from anynpu.vision.drawing import draw_detections
from anynpu.vision.frames import VideoWriter, open_frames

source, model, target, *head = sys.argv[1:]

seen: Counter[str] = Counter()
waiting = []  # frames on their way through the NPU


def pictures(frames):
    for frame in frames:
        waiting.append(frame.pixels)
        yield frame.pixels


start = time.perf_counter()
with (
    anynpu.InferenceSession(model, provider_options={"output_dtype": "model"}) as session,
    open_frames(source) as frames,
    VideoWriter(target, frames.rate or 25) as video,
):
    detector = Detector(session, *head)
    for found in detector.stream(pictures(frames)):
        video.write(draw_detections(waiting.pop(0), found))
        seen.update(["frames", *set(found.names)])
seconds = time.perf_counter() - start
count = seen.pop("frames")
print(f"{count} frames, {count / seconds:.1f} a second")
for name, count in seen.most_common():
    print(f"{name}: in {count} frames")
