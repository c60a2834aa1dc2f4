"""Mixers of state-space models, which the default domain has too since operator set 27."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from autofusion.ir.graph import Value
from autofusion_frontend_onnx.call import Call
from autofusion_frontend_onnx.definitions import written_out
from autofusion_frontend_onnx.registry import converter

_MS = "com.microsoft"
_SINCE = 27


@converter("CausalConvWithState", domain=_MS)
def causal_conv(call: Call) -> Sequence[Value | None]:
    """A causal convolution of each channel [batch, channels, length], with the last elements of the run before."""
    plain = {"ndim": 1, "dilation": 1, "channels_last": 0, "state_window": 0, "state_channels_last": -1}
    return _standard(call, plain | dict.fromkeys(_CUDA, 0), 2)


_CUDA = ("state_update_capacity", "state_length", "input_channel_offset", "input_channels")


@converter("LinearAttention", domain=_MS)
def linear_attention(call: Call) -> Sequence[Value | None]:
    """Attention without Softmax, as a recurrence over a state for each head."""
    return _standard(call, {"state_window": 0}, 2)


def _standard(call: Call, extra: dict[str, int], results: int) -> Sequence[Value | None]:
    """The definition of the operator of this name in the default domain, if what it lacks has these values."""
    for name, value in extra.items():
        if call.attr(name, value) != value:
            call.fail(f"{name} = {call.attr(name)} is not supported; expected {value}")
    if any(call.wants(i) for i in range(results, len(call.outputs))):
        call.fail(f"only the first {results} results are supported")
    if onnx.defs.onnx_opset_version() < _SINCE:
        call.fail(f"its definition needs an onnx package with operator set {_SINCE}")
    proto = onnx.NodeProto()
    proto.CopyFrom(call.proto)
    proto.domain = ""
    kept = [a for a in proto.attribute if a.name not in extra]
    del proto.attribute[:]
    proto.attribute.extend(kept)
    while len(proto.output) < results:
        proto.output.append("")
    same = Call(call.scope, proto, "", onnx.defs.onnx_opset_version(), call.name, call.inputs, dict(call.attrs))
    found = written_out(same)
    if found is None:
        call.fail("the installed onnx package does not define it")
    return found
