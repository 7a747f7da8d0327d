"""What computes a `.nb` file: the ONNX model inside a soft one, or a twin beside it."""
