"""What a declaration of registers is made of, and what all chips have.

Each chip's own are in `generations`, in the chip's folder: one class a register, one line a field.
Names are those of the open rocket driver (Mesa, `registers.xml`, MIT) and of the RK3588 TRM,
part 1, section 36.4.
"""
