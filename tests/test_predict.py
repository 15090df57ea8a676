"""Prediction: amounts of work, rates that are fitted, devices, and what `fairlead predict` tells."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.profile.analysis import Analysis, Layer, Tensor
from fairlead.profile.onnx_file import analyse
from fairlead.profile.operator_support import families
from fairlead.profile.predict.fusion import fused
from fairlead.profile.predict.layer_work import Work, by_kernel, by_model, summed, time_ms, works_of
from fairlead.profile.predict.matrix_completion import best_probes, fit_together
from fairlead.profile.predict.prediction import predict
from fairlead.profile.predict.rates import fit_kernels, fit_near, fit_population
from fairlead.profile.predict.speeds import EdgeTpuSpeed, KernelSpeed, ModelSpeed, fit_edge_tpu
from fairlead.profile.predict.timed_devices import calibrations_folder, find_device, known_devices
from fairlead.profile.predict.timing_tables import architecture, read_table, works_in_table


def small(path: Path, batch: int | str = 1, *more: object) -> Path:
    """A convolution with a normalisation and an activation, a shortcut, and a product."""
    draw = np.random.default_rng(0)
    shapes = {"w": (8, 4, 3, 3), "s": (8,), "b": (8,), "m": (8,), "v": (8,), "p": (1, 8, 1, 1), "g": (5, 8)}
    weights = [
        numpy_helper.from_array(1 + abs(draw.standard_normal(s)).astype(np.float32), n) for n, s in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Sigmoid", ["r"], ["half"]),
        helper.make_node("Mul", ["r", "half"], ["swish"]),
        helper.make_node("GlobalAveragePool", ["swish"], ["a"]),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("Gemm", ["f", "g"], ["y"], transB=1),
        *more,
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "small", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


LARGE = {"x": (1, 12000), "y": (1, 12000), "w": (12000, 12000)}


class TestWork:
    def test_what_runtimes_join_is_one_layer(self, tmp_path: Path) -> None:
        layers = fused(analyse(small(tmp_path / "m.onnx")))
        assert [(one.operator, one.outputs[0].name) for one in layers] == [
            ("Conv", "r"), ("Sigmoid", "swish"), ("GlobalAveragePool", "a"), ("Gemm", "y"),
        ]  # fmt: skip
        assert [tensor.name for tensor in layers[1].inputs] == ["r"]

    def test_a_tensor_that_others_read_too_is_written(self, tmp_path: Path) -> None:
        also = helper.make_node("Neg", ["n"], ["z"])
        layers = fused(analyse(small(tmp_path / "m.onnx", 1, also)))
        assert [one.outputs[0].name for one in layers[:2]] == ["n", "r"]

    def test_amounts_by_hand(self, tmp_path: Path) -> None:
        conv, _, pool, product = works_of(analyse(small(tmp_path / "m.onnx")))
        macs = 8 * 4 * 9 * 256
        assert conv == Work("conv3x3", macs, 4 * 256, 8 * 256, 8 * 4 * 9, channels=8, depth=36)
        assert by_kernel(conv) == pytest.approx(
            {
                "conv3x3.mmacs": macs / 1e6, "conv3x3.moved_mb": 12 * 256 * 4 / 1e6, "conv3x3.calls": 1.0,
                "conv3x3.weights_mb": 288 * 4 / 1e6,
            }
        )  # fmt: skip
        assert by_model(conv) == pytest.approx(
            {"fast.mmacs": macs / 1e6, "packing": macs / 8 / 1e6, "depth": 0.036, "calls": 1.0}
        )
        assert by_kernel(pool) == pytest.approx({"pool.moved_mb": (8 * 256 + 8) * 4 / 1e6, "pool.calls": 1.0})
        assert by_model(product) == pytest.approx({"vector.weights_mb": 40 * 4 / 1e6, "calls": 1.0})

    def test_eight_bits_have_rates_of_their_own(self) -> None:
        work = Work("conv1x1", 1_000_000, 10, 10, 10, channels=10, eight_bit=True)
        assert "dense8.mmacs" in by_model(work)

    def test_a_table_and_the_analyser_ask_for_about_the_same_of_inception(self) -> None:
        amounts = summed(works_in_table()["inception_v3"][0], by_model)
        assert amounts["fast.mmacs"] + amounts["dense.mmacs"] == pytest.approx(5713, rel=0.01)


class TestQuantised:
    def conv(self, form: str) -> list[object]:
        names = ["x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
        quantise = helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["q"])
        if form == "qlinear":
            return [quantise, helper.make_node("QLinearConv", ["q", *names], ["y"])]
        weight = helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wf"])
        back = helper.make_node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["xf"])
        if form == "qdq":
            return [quantise, back, weight, helper.make_node("Conv", ["xf", "wf"], ["y"])]
        return [weight, helper.make_node("Conv", ["x", "wf"], ["y"])]

    @pytest.mark.parametrize(("form", "dtype"), [("qlinear", "int8"), ("qdq", "int8"), ("weights alone", "float32")])
    def test_it_is_told_what_a_model_computes_in(self, form: str, dtype: str, tmp_path: Path) -> None:
        scale, zero = np.array(0.1, np.float32), np.array(0, np.int8)
        values = {"w": np.ones((8, 4, 1, 1), np.int8)}
        values |= {f"{one}_scale": scale for one in "xwy"} | {f"{one}_zero": zero for one in "xwy"}
        weights = [numpy_helper.from_array(value, name) for name, value in values.items()]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])
        y = helper.make_tensor_value_info("y", TensorProto.INT8 if form == "qlinear" else TensorProto.FLOAT, None)
        graph = helper.make_graph(self.conv(form), "quantised", [x], [y], weights)
        path = tmp_path / "q.onnx"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        path.write_bytes(model.SerializeToString())
        analysis = analyse(path)
        assert analysis.precisions == (dtype,)
        told = predict(analysis, find_device("coral-usb"))
        assert ("must be quantised to int8 first" in told.notes) == (dtype != "int8")


class TestRates:
    def test_kernels_of_known_rates_give_them_back(self) -> None:
        draw = np.random.default_rng(1)
        amounts = [{"a": float(draw.uniform(1, 9)), "b": float(draw.uniform(0, 5)), "c": 1.0} for _ in range(40)]
        rates = {"a": 0.5, "b": 0.0, "c": 0.2}
        assert fit_kernels(amounts, [time_ms(one, rates) for one in amounts]) == pytest.approx(rates, abs=1e-6)

    def test_rates_are_never_negative(self) -> None:
        rates = fit_kernels([{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}], [3.0, 2.0, 1.0])
        assert min(rates.values()) >= 0

    def test_a_device_of_the_population_is_found_by_its_speed(self) -> None:
        draw = np.random.default_rng(2)
        amounts = [{"a": float(draw.uniform(1, 9)), "b": float(draw.uniform(1, 9))} for _ in range(12)]
        times = np.array([[speed * (2 * one["a"] + one["b"]) for one in amounts] for speed in (1.0, 3.0, 10.0)])
        common = fit_population(amounts, times)
        rates = fit_near(common, amounts[:2], 5.0 * times[0, :2])  # two models tell the speed; the rest is common
        assert rates == pytest.approx({"a": 10.0, "b": 5.0}, rel=1e-6)

    def test_many_times_of_its_own_outweigh_the_population(self) -> None:
        draw = np.random.default_rng(3)
        amounts = [{"a": float(draw.uniform(1, 9)), "b": float(draw.uniform(1, 9))} for _ in range(200)]
        common = fit_population(amounts, np.array([[one["a"] + one["b"] for one in amounts]] * 3))
        odd = np.array([4 * one["a"] + one["b"] for one in amounts])
        assert fit_near(common, amounts, odd) == pytest.approx({"a": 4.0, "b": 1.0}, rel=0.02)


class TestCompletion:
    def times(self) -> np.ndarray:
        """Devices that differ in speed and in how much a second group of models costs them."""
        draw = np.random.default_rng(4)
        speed, extra = draw.normal(0, 1, (80, 1)), draw.normal(0, 0.5, (80, 1))
        base = np.log([3.0, 8.0, 20.0, 5.0, 9.0])
        return np.exp(base + speed + extra * np.array([0, 0, 0, 1, 1]) + draw.normal(0, 0.02, (80, 5)))

    def test_one_probe_of_each_group_tells_the_others(self) -> None:
        times = self.times()
        together = fit_together(times[:60])
        probes = best_probes(together, 2)
        assert len([n for n in probes if n >= 3]) == 1  # one of each
        for row in times[60:]:
            timed = np.full(5, np.nan)
            timed[probes] = row[probes]
            told, deviations = together.complete(timed)
            assert told == pytest.approx(row, rel=0.2)
            assert (deviations[probes] == 0).all()
            low, high = together.interval(told, deviations)
            assert (low <= told * 1.001).all()
            assert (told <= high * 1.001).all()

    def test_what_is_lacking_and_what_is_odd_does_little_harm(self) -> None:
        times = self.times()
        times[np.arange(0, 60, 3), 2] = np.nan
        times[5] = [1e6, 1e-3, 1e6, 1e-3, 1e6]
        together = fit_together(times[:60])
        timed = np.array([times[70, 0], np.nan, np.nan, times[70, 3], np.nan])
        told, _ = together.complete(timed)
        assert told == pytest.approx(times[70], rel=0.3)


class TestSpeeds:
    def test_a_model_of_few_kinds_has_a_wider_interval(self) -> None:
        speed = KernelSpeed({"a.calls": 1.0, "b.calls": 1.0}, {"a": 0.3, "b": 0.3})
        one, two = (speed.time_of([Work(one, 0, 0, 0, 0) for one in types]) for types in ("aa", "ab"))
        assert one.ms == two.ms == 2.0
        assert one.high_ms / one.low_ms > two.high_ms / two.low_ms
        assert one.high_ms == pytest.approx(2.0 * math.exp(1.645 * math.hypot(0.3, 0.05)))

    def test_weights_beyond_the_cache_of_an_edge_tpu_come_over_its_interface(self) -> None:
        small, large = (Work("conv1x1", 10**9, 0, 0, weights) for weights in (5_000_000, 17_600_000))
        speed = EdgeTpuSpeed(1.0, 3.0, cache_mb=7.6, host_mb_s=100.0, factors=(0.5, 2.0))
        assert speed.time_of([small]).ms == pytest.approx(4.0)
        assert speed.time_of([large]).ms == pytest.approx(4.0 + 1e3 * 10 / 100)
        assert speed.time_of([small]).high_ms == pytest.approx(8.0)

    def test_an_edge_tpu_of_known_rates_is_found(self) -> None:
        counts = [(0.5, 0.2), (0.3, 0.2), (4.0, 18.0), (12.0, 35.0)]
        times = [1.0 + 2.0 * gmacs + 1.5 * megabytes for gmacs, megabytes in counts]
        made = fit_edge_tpu(counts, times, 7.6, 1e3 / 1.5, (1.0, 1.0))
        assert (made.call_ms, made.ms_per_gmac) == pytest.approx((1.0, 2.0), rel=1e-6)


class TestDevices:
    def test_every_device_tells_a_time(self, tmp_path: Path) -> None:
        analysis = analyse(small(tmp_path / "m.onnx"))
        names = known_devices()
        assert len(names) > 120
        for name in names:
            told = predict(analysis, find_device(name))
            assert told.time is not None
            assert 0 < told.time.low_ms < told.time.ms < told.time.high_ms < 1e6, name

    @pytest.mark.parametrize(("field", "word"), [("memory_mb", "memory"), ("power_busy_w", "power|mode|MaxN")])
    def test_every_figure_of_a_device_has_a_source_or_is_assumed(self, field: str, word: str) -> None:
        for name in known_devices():
            device = find_device(name)
            assert device.support in families()
            if getattr(device, field) is not None:
                assert field in device.assumed or re.search(word, device.source), name

    def test_boards_are_told_about_as_they_were_timed(self) -> None:
        """Through `predict`, with its precisions: most of their own times come back within a third."""
        off = {}
        for name, models in (("jetson-xavier-nx", {"mobilenet_ssd": 1.349, "resnet50": 2.426}),
                             ("a10", {"mobilenet_ssd": 0.323, "resnet50": 0.459}),
                             ("jetson-nano", {"resnet18": 11.4, "resnet50": 29.8}),
                             ("coral-dev-board", {"mobilenet": 2.4, "mobilenet_v2": 2.6})):  # fmt: skip
            device = find_device(name)
            for model, true in models.items():
                works = works_in_table()[model]["int8" in device.precisions]
                off[name, model] = abs(device.speed.time_of(works).ms / true - 1)
        assert max(off.values()) < 0.34, off

    def test_devices_that_were_timed_are_told_as_they_were_timed(self) -> None:
        """Of models that the rates were fitted to, most are told within a fifth: else the fit is broken."""
        table, off = read_table("cpu"), []
        device = find_device("raspberry-pi-4-model-b")
        run = max(n for n, run in enumerate(table.runs) if run.device == "raspberry-pi-4-model-b" and run.threads == 4)
        for model, true in zip(table.models, table.times_ms[run], strict=True):
            works = works_in_table()[architecture(model)][model.endswith("_int8")]
            off.append(abs(device.speed.time_of(works).ms / true - 1))
        assert np.median(off) < 0.1

    def test_a_plain_name_is_the_cpu_and_a_wrong_one_has_a_neighbour(self) -> None:
        assert find_device("raspberry-pi-5").name == "raspberry-pi-5-cpu"
        with pytest.raises(UserError, match="did you mean 'jetson-nano'"):
            find_device("jetson-nanoo")
        with pytest.raises(UserError, match="run `fairlead calibrate`"):
            find_device("here")

    def test_a_host_with_usb_2_makes_large_models_slow_and_small_ones_little(self) -> None:
        def ms(name: str, model: str) -> float:
            return find_device(name).speed.time_of(works_in_table()[model][0]).ms

        assert ms("coral-usb2", "resnet50") > 4 * ms("coral-usb", "resnet50")
        assert ms("coral-usb2", "mobilenet_v2") < 4 * ms("coral-usb", "mobilenet_v2")

    @pytest.mark.parametrize("module", ["jetson-nano", "jetson-tx2-tf-trt"])
    @pytest.mark.parametrize("model", ["mobilenet", "mobilenet_v2"])
    def test_small_models_are_faster_on_an_edge_tpu(self, model: str, module: str) -> None:
        """The accelerator-aware scheduler's motivation. Not so by TensorRT on a TX2, timed with large models alone."""
        works = works_in_table()[model][0]
        edge_tpu, gpu = (find_device(name).speed.time_of(works).ms for name in ("coral-dev-board", module))
        assert edge_tpu < gpu

    @pytest.mark.parametrize("module", ["jetson-tx2", "jetson-tx2-tf-trt"])
    def test_inception_is_faster_on_a_gpu_module(self, module: str) -> None:
        works = works_in_table()["inception_v3"][0]
        assert find_device(module).speed.time_of(works).ms < find_device("coral-dev-board").speed.time_of(works).ms


class TestCommand:
    def test_a_table(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = str(small(tmp_path / "m.onnx"))
        assert main(["predict", path, "--device", "jetson-nano", "--device", "raspberry-pi-4-model-b"]) == 0
        out = capsys.readouterr().out
        assert "TensorRT" in out
        assert "ncnn, 4 threads" in out
        assert "assumed: jetson-nano: interval" in out

    def test_all_devices_the_fastest_first(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["predict", str(small(tmp_path / "m.onnx")), "--all", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        times = [one["latency_ms"] for one in told if one["feasible"]]
        assert times == sorted(times)
        assert {one["device"] for one in told} >= {"coral-usb", "jetson-nano-gpu", "rockchip-rk3588-cpu"}
        nano = next(one for one in told if one["device"] == "jetson-nano")
        assert nano["energy_mj"] == pytest.approx(10 * nano["latency_ms"])

    def test_what_cant_run_says_why(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        odd = helper.make_node("NonZero", ["n"], ["z"])
        path = str(small(tmp_path / "m.onnx", 1, odd))
        assert main(["predict", path, "--device", "coral-usb", "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)
        assert "NonZero: not among its operators" in told["notes"][0]
        assert told["latency_ms"] is not None
        first = helper.make_node("NonZero", ["x"], ["z"])
        path = str(small(tmp_path / "n.onnx", 1, first))
        assert main(["predict", path, "--device", "coral-usb", "--json", "--feasible"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["feasible"]

    def test_a_precision_that_nobody_timed_is_unknown_not_impossible(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = str(small(tmp_path / "m.onnx"))
        for device, precision in (("jetson-nano", "int8"), ("raspberry-pi-4-model-b", "float16")):
            assert main(["predict", path, "--device", device, "--precision", precision, "--json"]) == 0
            (told,) = json.loads(capsys.readouterr().out)
            assert (told["feasible"], told["latency_ms"]) == (True, None)
            assert f"was not timed in {precision}" in " ".join(told["notes"])

    def test_what_must_be_quantised_first_is_told(self, tmp_path: Path) -> None:
        told = predict(analyse(small(tmp_path / "m.onnx")), find_device("coral-usb"))
        assert told.notes == ("must be quantised to int8 first",)

    def test_a_damaged_calibration_costs_only_itself(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        calibrations_folder().mkdir(parents=True)
        (calibrations_folder() / "mine.json").write_text("{")
        assert main(["predict", str(small(tmp_path / "m.onnx")), "--all", "--json"]) == 0
        out, err = capsys.readouterr()
        assert len(json.loads(out)) > 120
        assert "mine.json: not valid JSON" in err

    def test_too_large_a_model_is_told(self) -> None:
        x, y, w = (Tensor(name, shape, "float32", 4.0) for name, shape in LARGE.items())
        product = Layer("y", "MatMul", "gemm", 12000**2, (x,), (w,), (y,))
        large = Analysis("m", (x,), (y,), (product,), sized_by_running=False)
        told = predict(large, find_device("raspberry-pi-zero-2-w"))
        assert not told.feasible
        assert "needs 549 MB of memory, it has 512" in told.against

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--device", "jetson"], "unknown device 'jetson' (these begin so: jetson-nano, "),
            (["--device", "jetsn-nano"], "unknown device 'jetsn-nano' (did you mean 'jetson-nano'?)"),
            (["--device", "no.json"], "no.json: can't read it: No such file"),
            (["--all", "--precision", "int9"], "--precision int9: unknown (did you mean 'int8'?)"),
            (["--all", "--batch", "0"], "--batch: expected a whole number from 1 to 1,000,000, got '0'"),
            (["--all", "--batch", "4"], "--batch 4: the file fixes it at 1; --size x.0=4 changes it"),
            (["--all", "--samples", "4"], "--samples needs --train"),
            (["--all", "--epochs", "4"], "--epochs needs --train"),
            (["--all", "--train", "--samples", "4", "--feasible"], "--precision and --feasible are for single runs"),
            (["--all", "--train"], "--train needs --samples N"),
            (["--all", "--train", "--samples", "0"], "--samples: expected a whole number from 1 to "),
            (["--all", "--size", "z=3"], "--size z=3: no input of m.onnx has it"),
            ([], "one of the arguments --device --all is required"),
        ],
    )
    def test_wrong_options_are_told_in_one_line(
        self, options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["predict", str(small(tmp_path / "m.onnx")), *options]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1

    def test_a_batch_takes_longer_but_not_for_each_as_long(self, tmp_path: Path) -> None:
        path, device = small(tmp_path / "m.onnx", "N"), find_device("jetson-nano")
        one, eight = (predict(analyse(path, batch=batch), device).time for batch in (1, 8))
        assert one is not None
        assert eight is not None
        assert one.ms < eight.ms < 8 * one.ms

    def test_where_no_training_was_timed_it_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = str(small(tmp_path / "m.onnx"))
        assert main(["predict", path, "--device", "jetson-nano", "--train", "--samples", "100"]) == 0
        assert "calibrate --train" in capsys.readouterr().out


def test_model_speed_by_hand() -> None:
    speed = ModelSpeed({"calls": 2.0, "pool.moved_mb": 10.0}, (0.5, 3.0))
    told = speed.time_of([Work("pool", 0, 100_000, 25_000, 0)])
    assert told.ms == pytest.approx(2.0 + 10.0 * 0.5)
    assert (told.low_ms, told.high_ms) == pytest.approx((3.5, 21.0))
