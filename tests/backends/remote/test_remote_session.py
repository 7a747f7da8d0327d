"""A session whose model is on other machines: every way of running, dispatch, what it says."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu import cli

from .conftest import Open, Serve
from .scripted import SHAPE, Refusal, doubled

Feed = dict[str, NDArray[Any]]


def feed(value: float) -> Feed:
    return {"x": np.full(SHAPE, value, np.float32)}


def test_every_way_of_running(serve: Serve, connect: Open) -> None:
    session = connect(serve(), serve())
    feeds = [feed(value) for value in range(20)]
    wanted = [doubled(each)["y"] for each in feeds]
    found: dict[str, list[Any]] = {
        "run": [session.run(None, each)[0] for each in feeds],
        "submit": [f.result()[0] for f in [session.submit(["y"], each) for each in feeds]],
        "map": [results[0] for results in session.map(feeds)],
        "pipeline": [
            r[0] for r in [session.run_pipeline(each) for each in feeds] if r is not None
        ] + [r[0] for r in session.flush()],
        "batch": list(session.run(None, np.concatenate([f["x"] for f in feeds]), batch="split")[0][
            :, None
        ]),
    }  # fmt: skip
    called: list[Any] = []
    for number, each in enumerate(feeds):
        session.run_async(None, each, lambda *answer: called.append(answer), number)

    async def all_at_once() -> list[Any]:
        return [
            r[0] for r in await asyncio.gather(*(session.run_awaitable(None, f) for f in feeds))
        ]

    found["asyncio"] = asyncio.run(all_at_once())
    session.close()
    assert [number for _, number, _ in called] == list(range(20))
    found["run_async"] = [results[0] for results, _, error in called if not error]
    for way, results in found.items():
        np.testing.assert_array_equal(np.stack(results), np.stack(wanted), err_msg=way)


def test_results_belong_to_the_caller(serve: Serve, connect: Open) -> None:
    session = connect(serve())
    first = session.run(None, feed(1))[0]
    first += 1
    assert first.flags.owndata
    np.testing.assert_array_equal(session.run(None, feed(1))[0], first - 1)


def test_inputs_may_change_after_submit(serve: Serve, connect: Open) -> None:
    go_on = threading.Event()

    def later(given: Feed) -> Feed:
        go_on.wait(10)
        return doubled(given)

    session = connect(serve(later))
    array = np.ones(SHAPE, np.float32)
    future = session.submit(None, array)
    array[:] = 5
    go_on.set()
    assert future.result()[0].max() == 2


def test_bytes_go_to_our_own_servers_as_bytes(serve: Serve, connect: Open) -> None:
    server = serve()
    picture = np.full(SHAPE, 200, np.uint8)
    assert connect(server).run(None, picture)[0].max() == 400
    assert server.dtypes == {"UINT8"}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_others_get_the_dtype_that_they_declare(dtype: type, serve: Serve, connect: Open) -> None:
    server = serve(name="triton", dtype=dtype)
    session = connect(server)
    assert session.run(None, np.full(SHAPE, 200, np.uint8))[0].max() == 400
    assert server.dtypes == {"FP32" if dtype is np.float32 else "FP16"}
    if dtype is np.float16:
        with pytest.raises(anynpu.TensorError, match="'x' takes float16; found values beyond"):
            session.run(None, np.full(SHAPE, 1e6, np.float32))


def test_open_sizes_are_the_servers(serve: Serve, connect: Open) -> None:
    session = connect(serve(shape=(-1, 3, -1, 4)))
    assert session.get_inputs()[0].shape == [-1, 3, -1, 4]
    assert session.run(None, np.ones((2, 3, 7, 4), np.float32))[0].shape == (2, 3, 7, 4)
    with pytest.raises(anynpu.TensorError, match="'x' takes the shape"):
        session.run(None, np.ones((2, 4, 7, 4), np.float32))


def test_what_a_session_says(serve: Serve, connect: Open) -> None:
    server = serve()
    session = connect(server)
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.shape, x.type, y.name, y.type) == (
        "x", list(SHAPE), "tensor(float)", "y", "tensor(float)",
    )  # fmt: skip
    assert session.get_providers() == ["RemoteExecutionProvider"]
    assert session.get_modelmeta().custom_metadata_map == {
        "servers": server.address, "platform": "NPU", "versions": "1",
    }  # fmt: skip
    with session.profile() as profile:
        session.run(None, feed(1))
    assert [stage.name for stage in profile.stages] == ["wait", "infer", "total"]


def test_unlike_servers_get_their_shares(serve: Serve, connect: Open) -> None:
    def slow(given: Feed) -> Feed:
        time.sleep(0.3)
        return doubled(given)

    def fast(given: Feed) -> Feed:
        time.sleep(0.01)
        return doubled(given)

    servers = serve(slow, cores=1), serve(fast, cores=3)
    session = connect(*servers)
    assert len(list(session.map(feed(n) for n in range(120)))) == 120
    assert servers[0].feeds + servers[1].feeds == 120
    # A core of the slow one takes thirty times as long, and there is one for three.
    assert servers[0].feeds < 30
    assert [server.most_at_once for server in servers] == [2, 4]


def test_few_requests_are_spread(serve: Serve, connect: Open) -> None:
    together = threading.Barrier(4)

    def meet(given: Feed) -> Feed:
        together.wait(20)
        return doubled(given)

    servers = serve(meet, cores=2), serve(meet, cores=2)
    session = connect(*servers)
    futures = [session.submit(None, feed(1)) for _ in range(4)]
    for future in futures:
        future.result()
    assert [server.feeds for server in servers] == [2, 2]


def test_cores_may_be_said(serve: Serve, connect: Open) -> None:
    servers = serve(cores=None), serve(cores=5)
    assert len(connect(*servers).network.worker_cores) == 1 + 5 + 2
    assert len(connect(*servers, cores="3,2", requests_ahead=0).network.worker_cores) == 5
    assert len(connect(*servers, cores=4).network.worker_cores) == 10
    with pytest.raises(anynpu.OptionError, match="cores has 3 numbers for 2 servers"):
        connect(*servers, cores=[1, 2, 3])
    with pytest.raises(
        anynpu.OptionError, match="take 1202 requests at once, and a session makes 1024"
    ):
        connect(*servers, cores=600)


def test_many_boards_work_at_once(serve: Serve, connect: Open) -> None:
    """More requests than a bit mask has bits: each of twenty boards gets what it has cores for."""
    together = threading.Barrier(80)

    def meet(given: Feed) -> Feed:
        together.wait(60)
        return doubled(given)

    servers = [serve(meet, cores=3) for _ in range(20)]
    session = connect(*servers)
    futures = [session.submit(None, feed(number)) for number in range(80)]
    for number, future in enumerate(futures):
        assert future.result(60)[0].ravel()[0] == 2 * number
    assert [server.feeds for server in servers] == [4] * 20


def test_a_session_can_be_pickled(serve: Serve, connect: Open) -> None:
    session = connect(serve(), serve(), token="a secret", cores=1)
    with pickle.loads(pickle.dumps(session)) as again:
        assert again.run(None, feed(3))[0].max() == 6
        assert again.get_provider_options() == session.get_provider_options()


def test_tokens_go_along_and_arent_shown(serve: Serve, connect: Open, tmp_path: Path) -> None:
    server = serve()
    session = connect(server, token="a secret")
    session.run(None, feed(1))
    assert "a secret" not in str(session.get_provider_options())
    (tmp_path / "token").write_text("another\n")
    connect(server, token_file=tmp_path / "token").run(None, feed(1))
    assert server.tokens == {"Bearer a secret", "Bearer another"}


def test_threads_share_a_session(serve: Serve, connect: Open) -> None:
    servers = serve(), serve(), serve()
    session = connect(*servers)
    wrong: list[float] = []

    def work(number: int) -> None:
        for step in range(40):
            value = number * 100 + step
            if session.run(None, feed(value))[0].max() != 2 * value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(server.feeds for server in servers) == 480


def test_commands_take_addresses(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve()
    assert cli.main(["run", server.address]) == 0
    printed = capsys.readouterr().out
    assert f"NPU at {server.address}; times are the servers', and the way there" in printed
    assert "y" in printed
    assert cli.main(["bench", server.address, "--duration", "0.1", "--way", "map"]) == 0


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tp_mode": "0,1"}, "tp_mode can't be chosen for a remote model"),
        ({"layout": "nhwc"}, "layout can't be chosen"),
        ({"output_layout": "native"}, "output_layout can't be chosen"),
        ({"library": "soft"}, "library can't be chosen"),
        ({"custom_ops": []}, "custom_ops can't be chosen"),
        ({"twin": "x"}, "twin can't be chosen"),
        ({"tokn": "x"}, "unknown provider option 'tokn', perhaps 'token'"),
        ({"schedule": [0, 1]}, "schedule and dispatch name cores of this machine"),
        ({"threads_per_core": 2}, "requests_ahead says how many"),
        ({"requests_ahead": -1}, "requests_ahead is -1"),
        ({"token": "a\nb"}, "token takes a text of printable ASCII"),
        ({"token": "a", "token_file": "b"}, "token and token_file exclude each other"),
        ({"tls_key_file": "b"}, "given together"),
        ({"tls_ca_file": "b"}, "isn't encrypted: begin the address with grpcs://"),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_there(options: dict[str, Any], match: str) -> None:
    with pytest.raises(anynpu.OptionError, match=match):
        anynpu.InferenceSession("grpc://127.0.0.1:1/m", provider_options=options)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("grpc://board", "doesn't name a model: grpc://HOST:PORT/MODEL"),
        ("grpc://board:99999/m", "is no address of a model"),
        ("grpc:///m", "is no address of a model"),
        ("grpc://me:secret@board/m", "has more than a host, a port and a model"),
        ("grpc://board/m/1/2", "doesn't name a model"),
        ("grpc://a/m,http://b/m", "'http://b/m' is no address"),
        (["grpc://a/m", "grpc://a:8001/m"], "is there twice"),
    ],
)
def test_addresses_that_are_none(address: Any, match: str) -> None:
    with pytest.raises(anynpu.ModelError, match=match) as caught:
        anynpu.InferenceSession(address)
    assert "secret" not in str(caught.value)


def test_memory_of_one_machine_is_refused(serve: Serve, connect: Open) -> None:
    server = serve()
    session = connect(server)
    with pytest.raises(anynpu.OptionError, match="io_binding is memory of one machine"):
        session.io_binding()
    with pytest.raises(anynpu.OptionError, match="such as an OrtValue on it"):
        anynpu.OrtValue.ortvalue_from_shape_and_type(
            None, None, session.device_type, name="x", session=session, io_kind="input"
        )
    with pytest.raises(anynpu.OptionError, match="no runtime library on this machine"):
        _ = session.network.library
    with pytest.raises(anynpu.OptionError, match="use InferenceSession"):
        anynpu.Model(server.address)
    with pytest.raises(anynpu.OptionError, match="use_weight_from is for models of one machine"):
        anynpu.InferenceSession(server.address, use_weight_from=session)
    with pytest.raises(anynpu.OptionError, match="is for RemoteExecutionProvider, not for RKNPU2"):
        anynpu.InferenceSession(server.address, providers=["RKNPU2ExecutionProvider"])
    options = anynpu.SessionOptions()
    options.add_free_dimension_override_by_name("n", 1)
    with pytest.raises(anynpu.OptionError, match="the model is another machine's"):
        anynpu.InferenceSession(server.address, options)


def test_mistakes_with_arrays_are_found_here(serve: Serve, connect: Open) -> None:
    server = serve()
    session = connect(server)
    with pytest.raises(anynpu.TensorError, match="'x' takes the shape"):
        session.run(None, np.ones((1, 3, 4, 5), np.float32))
    with pytest.raises(anynpu.TensorError, match=r"unknown \['z'\]"):
        session.run(None, {"z": np.ones(SHAPE, np.float32)})
    assert server.feeds == 0


def test_servers_must_have_one_model(serve: Serve, connect: Open) -> None:
    with pytest.raises(anynpu.ModelError, match=r"have different models: at .* its inputs are x"):
        connect(serve(), serve(shape=(1, 3, 4, 5)))


def test_unknown_models_are_named(serve: Serve) -> None:
    address = serve().address.replace("/m", "/other")
    with pytest.raises(anynpu.UnknownModelError, match="there is no model 'other'") as caught:
        anynpu.InferenceSession(address)
    assert caught.value.code == "NOT_FOUND"
    assert caught.value.address == address
    assert isinstance(caught.value, anynpu.ModelError)


def test_a_refusal_has_the_servers_text(serve: Serve, connect: Open) -> None:
    def refuse(given: Feed) -> Feed:
        raise Refusal("INVALID_ARGUMENT", "input 'x' takes even numbers")

    server = serve(refuse)
    session = connect(server)
    with pytest.raises(anynpu.RejectedRequestError, match="takes even numbers") as caught:
        session.run(None, feed(1))
    assert caught.value.text == "input 'x' takes even numbers"
    assert isinstance(caught.value, anynpu.TensorError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.code) == (str(caught.value), "INVALID_ARGUMENT")
    assert server.feeds == 1
