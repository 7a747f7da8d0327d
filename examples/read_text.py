"""Read a page with PP-OCR's networks.

python read_text.py page.png recogniser.rknn detector.rknn characters.txt
"""

import sys

import anynpu
from anynpu.vision import TextReader

page, recogniser, detector, characters = sys.argv[1:]

with anynpu.InferenceSession(recogniser) as reads, anynpu.InferenceSession(detector) as finds:
    for line in TextReader(reads, finds, characters=characters)(page):
        print(f"{line.confidence:4.0%}  {line.text}")
