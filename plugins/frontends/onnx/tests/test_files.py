"""Files: external data, files of other kinds, damaged ones."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autofusion.errors import ModelError
from autofusion.frontends import LoadOptions
from autofusion_frontend_onnx.frontend import OnnxFrontend
from plugins.frontends.onnx.tests.onnx_models import model

FRONTEND = OnnxFrontend()
X = np.ones((2, 3), np.float32)


def with_external(
    folder: Path, entries: dict[str, str], shape: tuple[int, ...] = (3,), kind: int = TensorProto.FLOAT
) -> Path:
    """A model whose initialiser 'w' says ``entries`` about where its data is."""
    source = model([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"], opset=23)
    tensor = source.graph.initializer.add(name="w", data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(source.SerializeToString())
    return path


def constant(path: Path) -> np.ndarray:
    graph = FRONTEND.load(path, LoadOptions())
    data = graph.nodes[0].inputs[0].const
    assert data is not None
    return data


def test_external_data_is_mapped_at_its_offset(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"\0" * 64 + np.float32([1, 2, 3]).tobytes() + b"\xff" * 8)
    data = constant(with_external(tmp_path, {"location": "sub/w.bin", "offset": "64", "length": "12"}))
    assert np.array_equal(data, np.float32([1, 2, 3])) and not data.flags.writeable
    base = data
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert base is not None, "external data must be mapped, not read"


def test_external_data_that_is_not_aligned(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" + np.float32([1, 2, 3]).tobytes())
    assert np.array_equal(constant(with_external(tmp_path, {"location": "w.bin", "offset": "1"})), [1, 2, 3])


def test_packed_and_empty_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes([0x21, 0x0F]))
    data = constant(with_external(tmp_path, {"location": "w.bin"}, (3,), TensorProto.INT4))
    assert data.astype(np.int8).tolist() == [1, 2, -1]
    assert constant(with_external(tmp_path, {"location": "w.bin"}, (0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, "outside of the model's folder"),
        ({"location": "sub/../../w.bin"}, "outside of the model's folder"),
        ({"location": "/etc/passwd"}, "outside of the model's folder"),
        ({"location": "C:\\w.bin"}, "outside of the model's folder"),
        ({"location": "..\\w.bin"}, "outside of the model's folder"),
        ({"location": "link.bin"}, "symbolic link"),
        ({"location": "linked/w.bin"}, "symbolic link"),
        ({"location": "missing.bin"}, "'missing.bin', which cannot be read"),
        ({"location": "sub"}, "folder; expected a file"),
        ({"location": "."}, "folder; expected a file"),
        ({}, "without a file name"),
        ({"location": "w.bin", "offset": "4"}, "bytes 4 to 16 of 'w.bin', which has 12 bytes"),
        ({"location": "w.bin", "offset": "-4"}, "bytes -4"),
        ({"location": "w.bin", "length": "8"}, "8 bytes of external data"),
        ({"location": "w.bin", "offset": "four"}, "not a number"),
    ],
)
def test_external_data_that_is_refused(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path, folder):
        (place / "w.bin").write_bytes(X[0].tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(ModelError, match="initialiser 'w'") as error:
        FRONTEND.load(with_external(folder, entries), LoadOptions())
    assert message in str(error.value)


@pytest.mark.parametrize("nested", [False, True])
def test_links_inside_of_one_store_are_followed(tmp_path: Path, nested: bool) -> None:
    """As hubs of models lay them: files of all revisions in one folder, named by their content."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1f0c" / ("onnx" if nested else "")
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    up = "../" * (3 if nested else 2)
    with_external(blobs, {"location": "model.onnx_data"}).rename(blobs / "77ab")
    (blobs / "c0de").write_bytes(X[0].tobytes())
    (snapshot / "model.onnx").symlink_to(f"{up}blobs/77ab")
    (snapshot / "model.onnx_data").symlink_to(f"{up}blobs/c0de")
    assert np.array_equal(constant(snapshot / "model.onnx"), X[0])
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to("/etc/hostname")
    with pytest.raises(ModelError, match="a symbolic link that leads out of the model's folder"):
        constant(snapshot / "model.onnx")


def test_links_to_what_lies_in_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "w.bin").write_bytes(X[0].tobytes())
    (tmp_path / "to").symlink_to("real")
    assert np.array_equal(constant(with_external(tmp_path, {"location": "to/w.bin"})), X[0])


@pytest.mark.slow
def test_model_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    size = 5 << 29
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
        file.seek(size - 4)
        file.write(np.float32(7).tobytes())
    data = constant(with_external(tmp_path, {"location": "w.bin"}, (size // 4,)))
    assert data.nbytes == size and data[-1] == 7


@pytest.mark.parametrize(
    ("dims", "filled", "message"),
    [
        ((4,), {"float_data": [1.0, 2.0, 3.0]}, "3 values in float_data; expected 4"),
        ((1 << 40,), {"float_data": [1.0]}, "expected 1099511627776"),
        ((1 << 40, 1 << 40), {"raw_data": b"1234"}, "4 bytes of raw data"),
        ((-1,), {"raw_data": b""}, "no negative size"),
    ],
)
def test_tensors_whose_size_is_a_lie(dims: tuple[int, ...], filled: dict[str, object], message: str) -> None:
    from plugins.frontends.onnx.tests.onnx_models import load

    source = model([helper.make_node("Identity", ["w"], ["y"])], {}, ["y"])
    source.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, **filled))
    with pytest.raises(ModelError, match="'w'") as error:
        load(source)
    assert message in str(error.value)


def _zip() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a", "b")
    return data.getvalue()


def _whole() -> bytes:
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y"]).SerializeToString()


@pytest.mark.parametrize(
    ("content", "said", "recognised"),
    [
        (b"", "an empty file", False),
        (b"hello world\n" * 20, "a text file", False),
        (b'{"a": 1}', "a JSON document", False),
        (_zip(), "a zip archive", False),
        (b"\x80\x04\x95" + bytes(50), "a Python pickle", False),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "an HDF5 file", False),
        (b"\x1c\x00\x00\x00TFL3" + bytes(50), "a TensorFlow Lite model", False),
        (b"version 1 of git-lfs\noid sha256:0\nsize 12\n", "a Git LFS pointer", False),
        (b"ir_version: 8\ngraph { }\n", "text form", False),
        (b"\n\x1d\n\x05input\x12\x0bPlaceholder*\x0b\n\x05dtype\x12\x020\x01", "a TensorFlow graph", False),
        (_whole()[:-9], "truncated or damaged", True),
        (b"\x08\x08", "not an ONNX model", False),
        (bytes(range(256)), "not an ONNX model", False),
    ],
)
def test_files_that_are_not_models(tmp_path: Path, content: bytes, said: str, recognised: bool) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert FRONTEND.recognises(path) is recognised
    with pytest.raises(ModelError, match=r"model.onnx") as error:
        FRONTEND.load(path, LoadOptions())
    assert said in str(error.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert not FRONTEND.recognises(tmp_path) and not FRONTEND.recognises(tmp_path / "none")
    with pytest.raises(ModelError, match="not a file"):
        FRONTEND.load(tmp_path, LoadOptions())
    with pytest.raises(ModelError, match="cannot be read"):
        FRONTEND.load(tmp_path / "none", LoadOptions())


def test_whole_file_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "whatever"
    path.write_bytes(_whole())
    assert FRONTEND.recognises(path)
    assert onnx.load(path).graph.node


def test_what_leads_to_a_model_is_said_before_anything_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "net.pt"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("net/data.pkl", b"")
    assert "torch.onnx.export" in str(FRONTEND.advise(archive))
    text = tmp_path / "net.txt"
    text.write_text("ir_version: 8")
    assert "onnx.save" in str(FRONTEND.advise(text))
    assert FRONTEND.advise(tmp_path / "nothing") is None
