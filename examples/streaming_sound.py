"""Recognise a stream of sound, chunk after chunk, by a network that is fed its own state.

The network hears the keys of a telephone. It has two states, as streaming recognisers of speech
have: the end of the last chunk, and how many samples it has heard, an int64 that stays one.

python streaming_sound.py
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import anynpu

RATE, CHUNK, OVERLAP = 8000, 800, 200
LOW, HIGH = (697, 770, 852, 941), (1209, 1336, 1477)
KEYS = "123456789*0#"


def network() -> bytes:
    """How loud each tone is in a chunk: a convolution with its waves, squared and summed."""
    time = np.arange(OVERLAP) / RATE
    tones = np.array(LOW + HIGH)[:, None]
    waves = np.concatenate([np.cos(2 * np.pi * tones * time), np.sin(2 * np.pi * tones * time)])
    constants = {
        "waves": (waves / OVERLAP)[:, None].astype(np.float32),
        "chunk": np.array([CHUNK], np.int64),
        "start": np.array([CHUNK], np.int64),
        "end": np.array([CHUNK + OVERLAP], np.int64),
        "axis": np.array([2], np.int64),
        "pairs": np.array([1, 2, len(tones), -1], np.int64),
        "over_time": np.array([1, 3], np.int64),
    }
    nodes = [
        helper.make_node("Concat", ["last", "sound"], ["heard"], axis=2),
        helper.make_node("Conv", ["heard", "waves"], ["both"], strides=[50]),
        helper.make_node("Mul", ["both", "both"], ["squared"]),
        helper.make_node("Reshape", ["squared", "pairs"], ["paired"]),
        helper.make_node("ReduceSum", ["paired", "over_time"], ["tones"], keepdims=0),
        helper.make_node("Slice", ["heard", "start", "end", "axis"], ["next_last"]),
        helper.make_node("Add", ["samples", "chunk"], ["next_samples"]),
    ]
    sound, kept = (1, 1, CHUNK), (1, 1, OVERLAP)
    graph = helper.make_graph(
        nodes,
        "telephone",
        [
            helper.make_tensor_value_info("sound", TensorProto.FLOAT, sound),
            helper.make_tensor_value_info("last", TensorProto.FLOAT, kept),
            helper.make_tensor_value_info("samples", TensorProto.INT64, (1,)),
        ],
        [
            helper.make_tensor_value_info("tones", TensorProto.FLOAT, (1, len(tones))),
            helper.make_tensor_value_info("next_last", TensorProto.FLOAT, kept),
            helper.make_tensor_value_info("next_samples", TensorProto.INT64, (1,)),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model.SerializeToString()


def dialled(keys: str) -> np.ndarray:
    """The sound of keys, a fifth of a second each, with pauses between them."""
    time = np.arange(2 * CHUNK) / RATE
    sounds = []
    for key in keys:
        row, column = divmod(KEYS.index(key), 3)
        wave = np.sin(2 * np.pi * LOW[row] * time) + np.sin(2 * np.pi * HIGH[column] * time)
        sounds += [wave / 2, np.zeros(2 * CHUNK)]
    noise = np.random.default_rng(1).normal(0, 0.02, 4 * CHUNK * len(keys))
    return (np.concatenate(sounds) + noise).astype(np.float32)


def main() -> None:
    """Listen to a number."""
    states = {"last": np.zeros((1, 1, OVERLAP), np.float32), "samples": np.zeros(1, np.int64)}
    heard, before = "", ""
    with anynpu.InferenceSession(network()) as session:
        for chunk in dialled("0123456789").reshape(-1, 1, 1, CHUNK):
            tones, last, samples = session.run(None, {"sound": chunk, **states})
            states = {"last": last, "samples": samples}
            low, high = tones[0, :4], tones[0, 4:]
            is_loud = min(low.max(), high.max()) > 0.1
            key = KEYS[3 * low.argmax() + high.argmax()] if is_loud else ""
            if key and key != before:
                print(f"{(samples[0] - CHUNK) / RATE:4.1f} s: {key}")
                heard += key
            before = key
    print(f"{samples[0]} samples ({samples.dtype}) were heard: {heard}")


if __name__ == "__main__":
    main()
