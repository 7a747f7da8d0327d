"""Why the soft NPU differs from the vendor's runtime 1.5.2, wherever it does.

Ours is of version 2.3.2's API: where the reference of that version, or a report from a board with a
later runtime, says otherwise than 1.5.2 does, the later one stands.
"""

from __future__ import annotations

REASONS: dict[str, str] = {
    "ends": "The vendor's library ends the process (a crash, an abort); ours returns the "
    "documented code and logs why.",
    "silent": "The code is the same; ours also logs why.",
    "warns": "The code is the same; the vendor's library also warns: of a type that it has no "
    "name for, of its own speed, of what this kernel lacks.",
    "level": "The code is the same; what the vendor's library logs as a warning is an error here.",
    "code": "Both refuse; ours with the code that the reference gives for the cause.",
    "lets pass": "The vendor's library takes a mistake for success: it does nothing, reads what it "
    "must not, or writes beyond memory. Ours refuses it.",
    "handles": "The vendor's library has no check of what a handle or a structure is, and works on "
    "whatever is there. Ours refuses it.",
    "before a run": "Nothing was computed yet: the vendor's library gives what memory holds, ours "
    "zero, and logs why.",
    "cleared": "Ours clears a name to its end; the vendor's library leaves what was there where "
    "the model has several shapes.",
    "failed context": "What a failed rknn_init leaves in the context: the vendor's library a "
    "pointer, or what was there before; ours 0.",
    "older files": "librknnmrt 1.5.2 looks for what files had before toolkit 1.6, and ends the "
    "process where it isn't there.",
    "strict file": "The vendor's library doesn't look at the end of a file, nor at its version "
    "above those that it knows; ours refuses what it can't read.",
    "parts": "The vendor's library finds no model at real_model_offset of a path, where there is "
    "one; ours reads it, as the reference has it.",
    "no weights": "The vendor's library loads a file whose weights were removed without a context "
    "that has them; ours refuses it.",
    "fences": "Shared on-chip memory without on-chip memory is refused here; the vendor's library "
    "takes the flag.",
    "account": "total_dma_allocated_size: the vendor's library counts whole pages of all that it "
    "has allocated by then, ours weights and internal memory.",
    "weight account": "total_weight_size: the vendor's library leaves out, or adds, constants "
    "that ours counts otherwise.",
    "own strides": "Sizes with stride of inputs that are no pictures: the vendor's library has "
    "whole blocks, ours the tensor's size, as logs of later versions do.",
    "recurrent tasks": "The engine refuses a register of recurrent tasks; the soft NPU computes "
    "such nodes from their weights instead.",
    "foreign memory": "The vendor's library checks and maps nothing of memory by descriptor or "
    "address, and knows one kind of it; ours checks, maps, and tells the kinds apart.",
    "large memory": "The simulated kernel has addresses of 32 bits; the soft NPU hasn't.",
    "one memory": "One memory for an input and an output: the vendor's library logs that the "
    "layout is not for it.",
    "shape in force": "After rknn_set_input_shapes 1.5.2 answers questions about a model with the "
    "shape in force, or the one before it; ours with the largest, as later versions.",
    "one shape call": "rknn_set_input_shape still works in 1.5.2; later versions have it no more.",
    "later products": "1.5.2 has two types of matrix products and smaller limits.",
    "later layouts": "1.5.2 takes any layout but 0 for the native one.",
    "later cores": "RKNN_NPU_CORE_ALL is of a later version.",
    "one core": "On a chip of one core the vendor's library takes rknn_set_batch_core_num, which "
    "the reference has for RK3588 and RK3576 alone.",
}
