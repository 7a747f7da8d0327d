"""Compile a program in C for the RKNN API, and run it on the soft NPU.

python c_program.py model.rknn
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from anynpu.rknn import header
from anynpu.soft.cabi.build import library_folder

(model,) = sys.argv[1:]
source = Path(__file__).with_name("program.c")
folder = library_folder()  # where librknnrt.so is, as `anynpu soft lib` prints it

with tempfile.TemporaryDirectory() as built:
    Path(built, "rknn_api.h").write_text(header.text())
    program = Path(built, "program")
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{built}", str(source)]
    subprocess.run([*command, "-o", str(program), f"-L{folder}", "-lrknnrt"], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    sys.exit(subprocess.run([program, model], env=environment, check=False).returncode)
