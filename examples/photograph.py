"""Find things in a photograph, and draw them.

python photograph.py street.jpg yolov8n.rknn found.jpg [HEAD]
"""

import sys

import anynpu
from anynpu.vision import Detector, read_picture, write_picture
from anynpu.vision.drawing import draw_detections

photograph, model, target, *head = sys.argv[1:]

picture = read_picture(photograph)
with anynpu.InferenceSession(model, provider_options={"output_dtype": "model"}) as session:
    found = Detector(session, *head)(picture)
for thing in found:
    print(f"{thing.name} {thing.score:.2f} at {', '.join(f'{edge:.0f}' for edge in thing.box)}")
write_picture(target, draw_detections(picture, found))
