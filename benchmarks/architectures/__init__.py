"""Published network architectures rebuilt as ONNX, with random weights: `build` of each module.

What a cost model needs of a network is its shape, not its weights. The detectors end as the
vendor's model zoo cuts them: the outputs are the heads' convolutions.
"""
