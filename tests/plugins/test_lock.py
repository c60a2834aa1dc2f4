"""Locks: exactly what was locked is loaded, or an error says what differs and how to get it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autofusion.errors import OptionError, PluginError
from autofusion.plugins.lock import Lock, Pin, read, to_text
from autofusion.tools.locking import requirements_file
from tests.support.distributions import GOOD_PACK, Distribution
from tests.support.distributions import run as run_anything

RULES = """
from autofusion.hooks import hookimpl

@hookimpl
def autofusion_rule_packs():
    from autofusion.rules.pattern import const, op, var
    from autofusion.rules.rule import RewriteRule, RulePack, Stage

    def build(match, builder):
        return [builder.op("Div", match["x"], builder.constant(2.0, match["x"].dtype))]

    pattern = op("Mul", var("x"), const("half", 0.5))
    return [RulePack("af-rules", "VERSION", (RewriteRule("af-rules.halve", pattern, build),))]
"""
PACK = Distribution("af-pack", GOOD_PACK.format(name="af-pack"))
OURS = Distribution("af-rules", RULES.replace("VERSION", "1.0"), group="autofusion.rules")
NEWER = replace(OURS, version="2.0", source=RULES.replace("VERSION", "2.0"))
EXTRA = Distribution("af-extra", GOOD_PACK.format(name="af-extra"))

CONVERTER = Distribution(
    "af-converter", "def af_converter(call):\n    return None\n", group="autofusion.converters.onnx", name="Fancy"
)

LOCK = "from pathlib import Path\nfrom autofusion.tools.locking import write\n"
MODEL = """
import numpy as np
import autofusion
from autofusion.ir.graph import Graph
from autofusion.ir.types import TensorType
graph = Graph("g")
x = graph.add_input("x", TensorType(np.dtype(np.float32), (2, 3)))
half = graph.constant(np.float32(0.5))
graph.add_output(graph.node("Mul", [x, half], name="scale", origin=("scale",)).output, "y")
session = autofusion.compile(graph)
print([f"{r.rule} {r.verdict.value}" for r in session.ledger.records if r.rule.startswith("af-rules")])
"""


def run(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run with the packs of the folder and two of ours: enough to tell, and nothing else has to stand still."""
    names = [path.name.split("-")[0].replace("_", "-") for path in folder.glob("*.dist-info")]
    return run_anything(folder, code, AUTOFUSION_PLUGINS=",".join(["reference", "conv", *names]), **environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two packs installed, in a folder of their own."""
    place = tmp_path / "installed"
    for distribution in (PACK, OURS):
        distribution.install(place)
    return place


def locked(folder: Path, name: str = "a.lock", call: str = "", **environ: str) -> Path:
    """A lock of what is installed."""
    path = folder.parent / name
    done = run(folder, LOCK + f"print('\\n'.join(write(Path({str(path)!r}){call})[1]))", **environ)
    assert done.returncode == 0, done.stderr
    return path


def uninstall(folder: Path, *distributions: Distribution) -> None:
    for distribution in distributions:
        for path in folder.glob(f"{distribution.module}*"):
            subprocess.run(["rm", "-r", str(path)], check=True)


def refused(folder: Path, lock: Path) -> str:
    done = run(folder, MODEL, AUTOFUSION_LOCK=str(lock))
    assert done.returncode != 0, done.stdout
    return done.stderr[done.stderr.index("PluginError: this environment") :]


def test_a_lock_says_what_is_installed(folder: Path) -> None:
    data = tomllib.loads(locked(folder).read_text())
    packs = {entry["dist"]: entry for entry in data["pack"]}
    assert packs["af-rules"]["version"] == "1.0"
    assert packs["af-rules"]["provides"] == ["rules:af-rules"]
    assert packs["af-rules"]["digest"].startswith("sha256:")
    assert packs["autofusion-rules-conv"]["emits"] == {"conv": "1"}
    assert packs["autofusion-kernels-reference"]["implements"] == {"*": "*"}
    assert data["target"]["lanes"] > 0
    assert [e["dist"] for e in data["pack"]] == sorted(packs)


def test_locking_twice_gives_the_same_bytes(folder: Path) -> None:
    assert locked(folder, "a.lock").read_bytes() == locked(folder, "b.lock").read_bytes()


def test_what_is_locked_is_loaded_and_nothing_else(folder: Path) -> None:
    lock = locked(folder)
    EXTRA.install(folder)
    code = "from autofusion.plugins.registry import default_registry\n"
    code += "print({r.dist: (str(r.status), r.detail) for r in default_registry().records})"
    done = run(folder, code, AUTOFUSION_LOCK=str(lock))
    assert "'af-rules': ('loaded', '')" in done.stdout
    assert "'af-extra': ('unpinned', 'the lock does not name it')" in done.stdout


def test_another_version_is_refused_and_both_are_named(folder: Path) -> None:
    lock = locked(folder)
    uninstall(folder, OURS)
    NEWER.install(folder)
    said = refused(folder, lock)
    assert f"this environment is not the one that '{lock}' locks" in said
    assert "af-rules is 2.0, the lock says 1.0; pip install 'af-rules==1.0'" in said
    assert f"autofusion lock --upgrade af-rules -o {lock}" in said


def test_other_content_is_refused(folder: Path) -> None:
    lock = locked(folder)
    source = folder / "af_rules" / "__init__.py"
    source.write_text(source.read_text() + "\n")
    said = refused(folder, lock)
    assert "af-rules 1.0 has other content than was locked" in said
    assert "pip install --force-reinstall --no-deps 'af-rules==1.0'" in said


def test_what_is_missing_is_named(folder: Path) -> None:
    lock = locked(folder)
    uninstall(folder, OURS, PACK)
    said = refused(folder, lock)
    assert "af-rules 1.0 is locked, but not installed; pip install 'af-rules==1.0'" in said
    assert "af-pack 1.0 is locked" in said, "all differences at once"


CONVERTERS = """
from autofusion.plugins.registry import default_registry
found = default_registry().converters("onnx").records
print([(r.dist, r.version, str(r.status), r.detail) for r in found if r.dist == "af-converter"])
"""


def test_converters_of_other_packages_are_locked_like_packs(folder: Path) -> None:
    CONVERTER.install(folder)
    lock = locked(folder)
    entry = next(e for e in tomllib.loads(lock.read_text())["pack"] if e["dist"] == "af-converter")
    assert entry["version"] == "1.0" and entry["digest"].startswith("sha256:")
    assert entry["provides"] == ["converters.onnx:Fancy"]
    done = run(folder, MODEL + CONVERTERS, AUTOFUSION_LOCK=str(lock))
    assert done.stdout.splitlines()[-1] == "[('af-converter', '1.0', 'loaded', '')]", done.stderr

    source = folder / "af_converter" / "__init__.py"
    source.write_text(source.read_text() + "\n")
    assert "af-converter 1.0 has other content than was locked" in refused(folder, lock)
    uninstall(folder, CONVERTER)
    assert "af-converter 1.0 is locked, but not installed; pip install" in refused(folder, lock)
    replace(CONVERTER, version="2.0").install(folder)
    assert "af-converter is 2.0, the lock says 1.0" in refused(folder, lock)
    done = run(folder, CONVERTERS, AUTOFUSION_LOCK=str(lock))
    assert done.stdout.strip() == "[('af-converter', '2.0', 'unpinned', 'the lock says 1.0')]"

    upgraded = run(folder, LOCK + f"print(write(Path({str(lock)!r}), ['af-converter'])[1])")
    assert upgraded.stdout.strip() == "['af-converter 1.0 -> 2.0']", upgraded.stderr
    assert run(folder, MODEL, AUTOFUSION_LOCK=str(lock)).returncode == 0


def test_converters_that_a_lock_does_not_name_are_not_used(folder: Path) -> None:
    lock = locked(folder)
    CONVERTER.install(folder)
    done = run(folder, CONVERTERS, AUTOFUSION_LOCK=str(lock))
    assert done.stdout.strip() == "[('af-converter', '1.0', 'unpinned', 'the lock does not name it')]"


def test_upgrading_one_pack_leaves_the_others(folder: Path) -> None:
    lock = locked(folder)
    uninstall(folder, OURS)
    NEWER.install(folder)
    (folder / "af_pack" / "more.py").write_text("")
    before = read(lock)
    done = run(folder, LOCK + f"print(write(Path({str(lock)!r}), ['af-rules'])[1])")
    assert done.stdout.strip() == "['af-rules 1.0 -> 2.0']"
    after = read(lock)
    assert after.pin("af-rules").version == "2.0"  # type: ignore[union-attr]
    assert after.pin("af-pack") == before.pin("af-pack"), "its new content was not asked for"
    assert "af-pack 1.0 has other content" in refused(folder, lock)


def test_upgrading_what_is_not_there(folder: Path) -> None:
    lock = locked(folder)
    done = run(folder, LOCK + f"write(Path({str(lock)!r}), ['af-rulez'])")
    assert "no pack 'af-rulez' is installed; did you mean 'af-rules'" in done.stderr
    done = run(folder, LOCK + f"write(Path({str(lock.parent / 'none.lock')!r}), ['af-rules'])")
    assert "there is no lock" in done.stderr and "to change" in done.stderr


def test_switches_and_priorities_are_part_of_the_lock(folder: Path) -> None:
    plain = locked(folder, "plain.lock")
    off = locked(
        folder, "off.lock", ", settings={'disable': ('af-rules.halve',), 'priorities': {'conv.epilogue': 'early'}}"
    )
    assert "af-rules.halve@1.0 fused" in run(folder, MODEL, AUTOFUSION_LOCK=str(plain)).stdout
    assert "af-rules.halve@1.0 disabled" in run(folder, MODEL, AUTOFUSION_LOCK=str(off)).stdout
    table = tomllib.loads(off.read_text())["fusion"]
    assert table == {"disable": ["af-rules.halve"], "priorities": {"conv.epilogue": "early"}}
    again = locked(folder, "off.lock")
    assert tomllib.loads(again.read_text())["fusion"] == table, "locking again keeps the switches"


def test_an_unknown_rule_cannot_be_locked(folder: Path) -> None:
    done = run(folder, LOCK + f"write(Path({str(folder / 'x.lock')!r}), settings={{'disable': ('af-rules.half',)}})")
    assert "'af-rules.half' is not the name of a rule" in done.stderr
    done = run(
        folder,
        LOCK + f"write(Path({str(folder / 'x.lock')!r}), settings={{'priorities': {{'conv.epilogue': 'soon'}}}})",
    )
    assert "priority 'soon' is neither a number nor a band" in done.stderr


def test_a_broken_environment_cannot_be_locked(folder: Path) -> None:
    Distribution("af-broken", "raise RuntimeError('boom')\n").install(folder)
    done = run(folder, LOCK + f"write(Path({str(folder / 'x.lock')!r}))")
    assert "packs that do not load cannot be locked" in done.stderr
    assert "af-broken==1.0: failed: RuntimeError: boom" in done.stderr


def test_a_locked_pack_that_does_not_load_is_an_error(folder: Path) -> None:
    lock = locked(folder)
    source = folder / "af_pack" / "__init__.py"
    source.write_text("raise RuntimeError('boom')\n")
    data = read(lock)
    code = "from autofusion.plugins.digest import content_digest\nprint(content_digest('af-pack'))"
    digest = run(folder, code).stdout.strip()
    lock.write_text(to_text(data.with_pin(replace(data.pin("af-pack"), digest=digest))))  # type: ignore[type-var]
    assert "of af-pack==1.0: failed: RuntimeError: boom" in refused(folder, lock)


def test_the_locked_machine_is_the_one_planned_for(folder: Path) -> None:
    lock = locked(folder)
    text = lock.read_text()
    lock.write_text(text.replace("l2_bytes = ", "l2_bytes = 1"))
    code = MODEL + "print(session.context.target.l2_bytes)"
    l2_bytes = int(run(folder, code).stdout.split()[-1])
    assert int(run(folder, code, AUTOFUSION_LOCK=str(lock)).stdout.split()[-1]) == int(f"1{l2_bytes}")
    lock.write_text(text.replace("lanes = ", "lanes = 1"))
    assert "was it merged by hand? Write it again" in run(folder, MODEL, AUTOFUSION_LOCK=str(lock)).stderr
    isa = tomllib.loads(text)["target"]["isa"]
    other = ("neon", 4) if isa != "neon" else ("avx2", 8)
    changed = text.replace(f'isa = "{isa}"', f'isa = "{other[0]}"')
    lock.write_text(re.sub("lanes = .*", f"lanes = {other[1]}", changed))
    done = run(folder, MODEL, AUTOFUSION_LOCK=str(lock))
    assert "locks plans for" in done.stderr


LOCK_OF_ONE = Lock((Pin("a", "1", "sha256:0"),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format = 2\n[packs]\n", "unknown entry 'packs'; did you mean 'pack'"),
        ("format = 9\n", "has format 9, expected 2"),
        ("format = ", "is not a TOML file"),
        ("format = 2\n[[pack]]\ndist='a'\n", "is incomplete (KeyError: 'version')"),
    ],
)
def test_files_that_are_no_lock(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.lock"
    path.write_text(text)
    with pytest.raises(PluginError) as error:
        read(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_text_and_lock_are_the_same(tmp_path: Path) -> None:
    pins = (
        Pin("b", "2", "sha256:1", ("rules:b",), {"k": "1"}),
        Pin("a", "1", "sha256:0", (), {}, {"*": "*"}, {"numpy": "2.0"}),
    )
    lock = Lock(
        pins,
        {"level": "full", "disable": ["b.x"], "priorities": {"b.y": 3, "b.z": "late-1"}},
        {"isa": "avx2", "peak_flops": 1e11},
    )
    path = tmp_path / "x.lock"
    path.write_text(to_text(lock))
    found = read(path)
    assert to_text(found) == to_text(lock)
    assert (found.fusion, found.target) == (lock.fusion, lock.target)
    assert found.pin("B") == lock.pins[0]


def test_a_wrong_key_in_the_table_of_settings(folder: Path) -> None:
    lock = locked(folder)
    lock.write_text(lock.read_text() + "\n[fusion]\ndisabled = []\n")
    assert "'fusion.disabled' in" in run(folder, MODEL, AUTOFUSION_LOCK=str(lock)).stderr
    assert issubclass(OptionError, Exception)


def test_the_core_and_what_packs_stand_on_are_locked(folder: Path) -> None:
    lock = locked(folder)
    packs = {entry["dist"]: entry for entry in tomllib.loads(lock.read_text())["pack"]}
    assert packs["autofusion"]["digest"].startswith("sha256:") and "numpy" in packs["autofusion"]["requires"]
    text = lock.read_text()
    lock.write_text(text.replace(f'numpy = "{np.__version__}"', 'numpy = "1.2.3"'))
    said = refused(folder, lock)
    assert (
        f"numpy, which autofusion stands on, is {np.__version__}, the lock says 1.2.3; pip install 'numpy==1.2.3'"
        in said
    )
    done = run(folder, LOCK + f"print(write(Path({str(lock)!r}), ['autofusion'])[1])")
    assert f"numpy, for autofusion: 1.2.3 -> {np.__version__}" in done.stdout, done.stderr
    digest = packs["autofusion"]["digest"]
    lock.write_text(text.replace(digest, "sha256:0"))
    assert "has other content than was locked" in refused(folder, lock)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"rules:af-rules"', '"rules:other"', "af-rules provides rules:af-rules, the lock says rules:other"),
        ('conv = "1"', 'conv = "2"', "autofusion-rules-conv emits kind 'conv' in version 1, the lock says 2"),
        ('"*" = "*"', '"*" = "1"', "autofusion-kernels-reference implements kind '*' in version *, the lock says 1"),
    ],
)
def test_every_entry_is_checked_against_the_packs(folder: Path, old: str, new: str, said: str) -> None:
    lock = locked(folder)
    text = lock.read_text()
    assert old in text
    lock.write_text(text.replace(old, new))
    assert said in refused(folder, lock)


def test_a_pack_can_be_taken_out(folder: Path) -> None:
    lock = locked(folder)
    uninstall(folder, PACK)
    assert f"or take it out: autofusion lock --remove af-pack -o {lock}" in refused(folder, lock)
    done = run(folder, LOCK + f"print(write(Path({str(lock)!r}), remove=['af-pack'])[1])")
    assert done.stdout.strip() == "['af-pack 1.0 removed']", done.stderr
    assert run(folder, MODEL, AUTOFUSION_LOCK=str(lock)).returncode == 0
    done = run(folder, LOCK + f"write(Path({str(lock)!r}), remove=['af-pakc'])")
    assert "has no pack 'af-pakc' to remove" in done.stderr


def test_each_compilation_may_keep_to_a_lock_of_its_own(folder: Path) -> None:
    plain = locked(folder, "plain.lock")
    off = locked(folder, "off.lock", ", settings={'disable': ('af-rules.halve',)}")
    code = MODEL.replace("compile(graph)", "compile(graph, lock=LOCK)")
    both = "import os\n" + "".join(code.replace("LOCK", repr(str(each))) for each in (plain, off))
    both += MODEL.replace("import numpy", f"os.environ['AUTOFUSION_LOCK'] = {str(plain)!r}\nimport numpy")
    both += MODEL.replace("import numpy", f"os.environ['AUTOFUSION_LOCK'] = {str(off)!r}\nimport numpy")
    done = run(folder, both)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["fused']", "disabled']"] * 2, done.stderr


def test_requirements_with_hashes(folder: Path, tmp_path: Path) -> None:
    lock = Lock((Pin("autofusion", "1.0", "sha256:0", requires={"numpy": "2.0"}), Pin("af-x", "2", "sha256:0")))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("autofusion-1.0-py3-none-any.whl", "numpy-2.0-cp311-cp311-linux_x86_64.whl", "numpy-2.0.tar.gz"):
        (wheels / name).write_bytes(name.encode())
    with pytest.raises(OptionError, match=r"lacks af-x==2; 'pip download"):
        requirements_file(lock, wheels)
    (wheels / "af_x-2-py3-none-any.whl").write_bytes(b"x")
    text = requirements_file(lock, wheels)
    pinned = [line.rstrip(" \\") for line in text.splitlines() if not line.startswith(" ")]
    assert pinned == ["af-x==2", "autofusion==1.0", "numpy==2.0"]
    assert text.count("--hash=sha256:") == 4 and hashlib.sha256(b"x").hexdigest() in text
