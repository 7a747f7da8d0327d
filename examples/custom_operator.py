"""An operator that the NPU doesn't have, written in Python: the model's other nodes run as ever.

python custom_operator.py
"""

import numpy as np
from onnx import TensorProto, helper

import anynpu


@anynpu.rknn.custom_op("cstSwish")
def swish(node, inputs, outputs):
    """The function x * sigmoid(beta * x), of float32 arrays on the runtime's own memory."""
    x = inputs[0]
    np.divide(x, 1 + np.exp(-node.attribute("beta", 1.0) * x), out=outputs[0])


shape = (1, 3, 4, 4)
graph = helper.make_graph(
    [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("cstSwish", ["positive"], ["y"], domain="rknn_cst", beta=2.0),
    ],
    "swish",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("rknn_cst", 1)]
model = helper.make_model(graph, opset_imports=opsets)
model.ir_version = 9

values = np.linspace(-3, 3, 48, dtype=np.float32).reshape(shape)
options = {"custom_ops": [swish], "disable_dup_context": True}
with anynpu.InferenceSession(model.SerializeToString(), provider_options=options) as session:
    (result,) = session.run(None, {"x": values})
expected = np.maximum(values, 0) / (1 + np.exp(-2 * np.maximum(values, 0)))
print(f"largest difference to NumPy's: {np.abs(result - expected).max():.4f}")
