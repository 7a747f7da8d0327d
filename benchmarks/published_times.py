"""How fast networks and layers are on boards, as others have published it."""

from __future__ import annotations

CHIPS = ("rk3566", "rk3562", "rk3588", "rk3576")
"""RK3566's rates are RK3568's, too."""

_FIELDS = """
mobilenetv2-12  180.7 281.3 450.7 467.0
resnet50-v2-7    37.9  54.9 110.1  99.0
yolov5n          39.7  47.4  82.5 112.7
yolov5s          19.3  23.6  48.4  57.5
yolov5s_relu     25.5  33.2  66.1  65.0
yolov5m           8.6  10.8  20.9  23.7
yolov6n          48.8  56.4 106.4 109.1
yolov6s          15.2  17.3  36.4  35.0
yolov7-tiny      27.9  36.5  72.7  74.8
yolov8n          34.0  40.9  73.5  90.2
yolov8s          15.1  18.4  38.0  40.8
yolov8m           6.5   8.2  16.2  16.7
ppocrv4_det      22.1  28.0  50.7  64.3
ppocrv4_rec      19.5  54.3  73.9  96.8
clip_text        29.7  66.6  96.0  63.7
"""

FRAME_RATES = {
    name: dict(zip(CHIPS, map(float, rates), strict=True))
    for name, *rates in map(str.split, _FIELDS.strip().splitlines())
}
"""Frames a second on one core by network and chip: inference alone (rknn_run), without inputs and
outputs. From the README of Rockchip's RKNN Model Zoo, for SDK 2.3.2."""

LAYER_TIMES = {
    "ConvExSwish": 100965,
    "Concat": 11349,
    "Split": 4818,
    "Add": 3156,
    "ConvSigmoid": 1974,
    "Resize": 1801,
    "Conv": 1526,
    "MaxPool": 1013,
}
"""Microseconds on one core of RK3588 by kind of layer, of YOLOv8n in int8 for images of 1920x1920
and 3 classes, profiled with SDK 1.6.0. From channyHuang's notes "Push Yolov8n Pre-train Model To
rk3588 (2)", 2024, https://channyhuang.github.io."""

SINGLE_LAYERS = """
exSDPAttention  float16 24x64x1x257    -             24x64x1x257   5971
ConvAdd         float16 4x384x1x257    384x384x1x1   4x384x1x257   412
exNorm          float16 4x384x1x257    -             4x384x1x257   768
ConvExGelu      float16 4x384x1x257    1536x384x1x1  4x1536x1x257  2091
Transpose       float16 32x32x1x384    -             1x384x32x32   716
Transpose       float16 1x384x4x256    -             4x384x1x256   138
"""
"""Kind, type, input, weights, output and microseconds of a RF-DETR's layers on one core of RK3588,
profiled one by one, from a comment on https://github.com/airockchip/rknn_model_zoo/issues/366."""
