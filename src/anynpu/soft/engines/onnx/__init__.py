"""ONNX models behind the seam: ONNX Runtime computes, cut where the device begins."""
