"""Around the network: from pictures to input arrays, from output arrays to things in a picture.

`letterbox` fits a picture into a fixed input; `text` reads what PP-OCR's networks return.
Pictures are Pillow images or uint8 RGB arrays (H, W, 3). Needs Pillow and scikit-image
(``pip install 'anynpu[demo]'``).
"""
