"""Which photographs are alike: a classifier's scores as embeddings, and the cosine between them.

python embeddings.py efficientnet.rknn photo.jpg another.jpg ...
"""

import sys
from pathlib import Path

import numpy as np

import anynpu
from anynpu.vision.letterbox import Fitting
from anynpu.vision.pictures import read_picture

model, *photographs = sys.argv[1:]

with anynpu.InferenceSession(model, provider_options={"layout": "nhwc"}) as session:
    _, height, width, _ = session.get_inputs()[0].shape
    fitting = Fitting(is_stretched=True)
    feeds = (fitting.fit(read_picture(path), (width, height))[0][None] for path in photographs)
    vectors = np.array([np.ravel(outputs[0]) for outputs in session.map(feeds)])

vectors -= vectors.mean(axis=1, keepdims=True)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
cosines = vectors @ vectors.T
for row, path in zip(cosines, photographs, strict=True):
    others = [index for index in np.argsort(-row) if photographs[index] != path]
    nearest = others[0]
    print(f"{Path(path).name} is most like {Path(photographs[nearest]).name}: {row[nearest]:.2f}")
