"""Files: whole and split ones, encrypted, truncated, damaged, and of other kinds."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import autofusion as af
from autofusion.errors import ModelError, UnsupportedOperatorError
from autofusion.frontends import LoadOptions
from autofusion_frontend_mindspore.frontend import MindsporeFrontend
from autofusion_frontend_mindspore.protos import model_proto
from plugins.frontends.mindspore.tests import mindir_cache

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed"),
]

FRONTEND = MindsporeFrontend()


def load(path: Path, key: bytes | None = None) -> object:
    return FRONTEND.load(path, LoadOptions(key=key))


@pytest.fixture(scope="module")
def small() -> Path:
    return mindir_cache.exported("shared_parameter").path


def edited(source: Path, folder: Path, change: object) -> Path:
    """The model after ``change`` has been made to its message."""
    model = model_proto()
    model.ParseFromString(source.read_bytes())
    change(model)  # type: ignore[operator]
    path = folder / "model.mindir"
    path.write_bytes(model.SerializeToString())
    return path


def split(source: Path, folder: Path) -> Path:
    """The model with its parameters in a file of their own, as MindSpore lays them out above a gigabyte."""
    data = bytearray(b"\x01" + bytes(63))

    def move(model: object) -> None:
        for parameter in model.graph.parameter:  # type: ignore[attr-defined]
            where = parameter.external_data
            where.location, where.offset, where.length = "model_variables/data_0", len(data), len(parameter.raw_data)
            data.extend(parameter.raw_data + bytes(-len(parameter.raw_data) % 64))
            parameter.ClearField("raw_data")

    path = edited(source, folder, move)
    (folder / "model_variables").mkdir()
    (folder / "model_variables" / "data_0").write_bytes(data)
    return path


def test_split_model_is_read_from_its_files(small: Path, tmp_path: Path) -> None:
    network = mindir_cache.exported("shared_parameter")
    session = af.compile(split(small, tmp_path))
    assert np.allclose(session.run({"x": network.inputs[0]})["out0"], network.outputs[0], atol=1e-6)


def test_split_model_without_its_data(small: Path, tmp_path: Path) -> None:
    path = split(small, tmp_path)
    shutil.rmtree(tmp_path / "model_variables")
    with pytest.raises(ModelError, match=r"parameter '.*first.weight'.*'model_variables/data_0', which is not in"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("length", 8, "is declared with 64 bytes, but says that it has 8"),
        ("offset", 1 << 20, "has its data at bytes 1048576 to 1048640"),
        ("offset", 0, "the first 64 are its header"),
        ("location", "../data_0", "expected a path below"),
        ("location", "/data_0", "expected a path below"),
        ("location", "", "expected a path below"),
    ],
)
def test_split_model_that_does_not_match(small: Path, tmp_path: Path, field: str, value: object, message: str) -> None:
    source = split(small, tmp_path)

    def change(model: object) -> None:
        first = next(p for p in model.graph.parameter if p.ref_key == "first.weight")  # type: ignore[attr-defined]
        setattr(first.external_data, field, value)

    with pytest.raises(ModelError, match=message):
        load(edited(source, tmp_path, change))


def test_split_model_with_data_that_is_no_parameter_file(small: Path, tmp_path: Path) -> None:
    path = split(small, tmp_path)
    data = tmp_path / "model_variables" / "data_0"
    data.write_bytes(b"\xd8" + data.read_bytes()[1:])
    with pytest.raises(ModelError, match="does not begin with the header of a parameter file"):
        load(path)


def test_data_that_does_not_match_its_declaration(small: Path, tmp_path: Path) -> None:
    def grow(model: object) -> None:
        model.graph.parameter[0].dims[0] += 1  # type: ignore[attr-defined]

    with pytest.raises(
        ModelError, match=r"parameter '.*' is declared float32\[5.*\], which is \d+ bytes, but holds \d+"
    ):
        load(edited(small, tmp_path, grow))


def test_parameters_left_out(small: Path, tmp_path: Path) -> None:
    def drop(model: object) -> None:
        for parameter in model.graph.parameter:  # type: ignore[attr-defined]
            parameter.ClearField("raw_data")

    with pytest.raises(ModelError, match="were its parameters left out"):
        load(edited(small, tmp_path, drop))


def test_every_truncation_is_refused(small: Path, tmp_path: Path) -> None:
    whole, path = small.read_bytes(), tmp_path / "cut.mindir"
    cuts = {*range(0, 64), *range(64, len(whole), 97), len(whole) - 1}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelError, match="cut"):
            load(path)


def test_damage_never_crashes(small: Path, tmp_path: Path) -> None:
    whole, path, rng = small.read_bytes(), tmp_path / "damaged.mindir", np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            load(path)
        except ModelError as error:
            assert "damaged.mindir" in str(error)
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "an empty file"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (b"hello\n" * 10, "a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (bytes(range(256)), "of a kind that is not known"),
        (b"\x1c\0\0\0TFL3" + bytes(50), "a TensorFlow Lite model"),
    ],
)
def test_foreign_files_are_named(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "foreign.mindir"
    path.write_bytes(content)
    assert not FRONTEND.recognises(path)
    with pytest.raises(ModelError, match=kind):
        af.load(path)


def test_missing_file() -> None:
    with pytest.raises(ModelError, match="no model"):
        af.load("nowhere.mindir")
    with pytest.raises(ModelError, match="cannot be read"):
        load(Path("nowhere.mindir"))
    assert not FRONTEND.recognises(Path("nowhere.mindir"))


def test_recognised_by_content_whatever_the_suffix(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(small.read_bytes())
    assert FRONTEND.recognises(path)
    assert [v.name for v in af.load(path).inputs] == ["x"]


def test_newer_files_are_refused(small: Path, tmp_path: Path) -> None:
    def newer(model: object) -> None:
        model.mind_ir_version = 9  # type: ignore[attr-defined]

    with pytest.raises(ModelError, match="MindIR version 9"):
        load(edited(small, tmp_path, newer))


def test_files_of_mindspore_1_are_refused(small: Path, tmp_path: Path) -> None:
    def older(model: object) -> None:
        for node in model.graph.node:  # type: ignore[attr-defined]
            node.op_type = node.op_type.removeprefix("REF::").partition(":")[0]
        del model.primitives[:]  # type: ignore[attr-defined]

    with pytest.raises(ModelError, match="as MindSpore 1 did"):
        load(edited(small, tmp_path, older))


def test_big_endian_files_are_refused(small: Path, tmp_path: Path) -> None:
    def big(model: object) -> None:
        model.little_endian = False  # type: ignore[attr-defined]

    with pytest.raises(ModelError, match="big-endian"):
        load(edited(small, tmp_path, big))


@pytest.mark.parametrize(("magic", "cipher"), [(b"\xd8", "AES-GCM"), (b"\xd9", "AES-CBC"), (b"\xda", "SM4-CBC")])
def test_encrypted_files_are_named(tmp_path: Path, magic: bytes, cipher: str) -> None:
    path = tmp_path / "secret.mindir"
    path.write_bytes(magic + b"\x5e\x3a\x7f" + bytes(60))
    assert FRONTEND.recognises(path)
    with pytest.raises(ModelError, match=f"encrypted \\({cipher}\\).*key="):
        load(path)
    with pytest.raises(ModelError, match=f"a key for {cipher} has 16( bytes|, 24 or 32 bytes), found 3"):
        load(path, b"abc")


def test_key_for_a_file_that_needs_none(small: Path) -> None:
    with pytest.raises(ModelError, match="is not encrypted"):
        load(small, b"0123456789ABCDEF")


def test_unknown_primitive_is_named_with_its_node(small: Path, tmp_path: Path) -> None:
    def rename(model: object) -> None:
        for primitive in model.primitives:  # type: ignore[attr-defined]
            if primitive.op_type == "BiasAdd":
                primitive.op_type = "BiasAdde"

    with pytest.raises(UnsupportedOperatorError) as caught:
        load(edited(small, tmp_path, rename))
    text = str(caught.value)
    assert "'first-Dense/BiasAdd-op0'" in text and "'BiasAdde'" in text and "'BiasAdd'" in text
    assert "autofusion.converters.mindspore" in text


def test_all_unknown_primitives_are_named(small: Path, tmp_path: Path) -> None:
    def rename(model: object) -> None:
        for primitive in model.primitives:  # type: ignore[attr-defined]
            if primitive.op_type in ("BiasAdd", "MatMul"):
                primitive.op_type = {"BiasAdd": "Frobnicate", "MatMul": "Quantise"}[primitive.op_type]
        function = model.functions.add(name="never called")  # type: ignore[attr-defined]
        model.primitives.add(name="Unused:9", op_type="Unused")  # type: ignore[attr-defined]
        function.node.add(op_type="REF::Unused:9", output=["y"])

    with pytest.raises(UnsupportedOperatorError) as caught:
        load(edited(small, tmp_path, rename))
    text = str(caught.value)
    assert "have no converter: Frobnicate ('first-Dense/BiasAdd-op0' and 1 more), Quantise ('first-" in text
    assert "Unused" not in text
