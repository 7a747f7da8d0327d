"""The matrix products of the C API: rknn_matmul_* and B's native layout (sections 4.4 and 4.5).

For integers C = sum of (A - zero point) * (B - zero point), exact and saturated to C's type. Where
C is int8 or a float type it is multiplied by A's scale times B's over C's, rounded to nearest with
ties to even, and gets C's zero point. Where it is int32 and B has a scale for each column, it is
multiplied by B's scale over the largest of B's scales, which rknn_matmul_get_quant_params gives.
Products with a float A, or with groups, are computed and summed in float32.
"""
