"""Colour spaces: channels last, numbers between 0 and 1."""

from __future__ import annotations

from autofusion.ir.graph import Value
from autofusion_frontend_tensorflow.call import Call
from autofusion_frontend_tensorflow.registry import converter


def _channels(call: Call, image: Value) -> list[Value]:
    return [call.slice(image, -1, k, k + 1) for k in range(3)]


def _fraction(call: Call, x: Value) -> Value:
    return call.emit("Sub", x, call.emit("Floor", x))


def _hsv(call: Call, image: Value) -> list[Value]:
    """Hue (a sixth for each step from one pure colour to the next mixed one), saturation and value."""
    red, green, blue = _channels(call, image)
    zero, one, six = (call.like(n, image) for n in (0, 1, 6))
    value = call.emit("Max", red, green, blue)
    spread = call.emit("Sub", value, call.emit("Min", red, green, blue))
    some = call.emit("Greater", value, zero)
    saturation = call.emit("Where", some, call.emit("Div", spread, call.emit("Where", some, value, one)), zero)
    mixed = call.emit("Greater", spread, zero)
    norm = call.emit("Div", one, call.emit("Mul", six, call.emit("Where", mixed, spread, one)))

    def hue(a: Value, b: Value, turn: float) -> Value:
        return call.emit("Add", call.emit("Mul", norm, call.emit("Sub", a, b)), call.like(turn, image))

    is_red, is_green = call.emit("Equal", red, value), call.emit("Equal", green, value)
    other = call.emit("Where", is_green, hue(blue, red, 2 / 6), hue(red, green, 4 / 6))
    found = call.emit("Where", mixed, call.emit("Where", is_red, hue(green, blue, 0), other), zero)
    negative = call.emit("Less", found, zero)
    return [call.emit("Where", negative, call.emit("Add", found, one), found), saturation, value]


def _rgb(call: Call, hue: Value, saturation: Value, value: Value) -> Value:
    """Each channel is the value less what the saturation takes away at this distance from its own hue."""
    zero, one, two, three, four, six = (call.like(n, hue) for n in (0, 1, 2, 3, 4, 6))
    turn = call.emit("Mul", hue, six)

    def away(centre: Value) -> Value:
        return call.emit("Abs", call.emit("Sub", turn, centre))

    parts = (
        call.emit("Sub", away(three), one),
        call.emit("Sub", two, away(two)),
        call.emit("Sub", two, away(four)),
    )
    pure = [call.emit("Min", call.emit("Max", part, zero), one) for part in parts]
    grey = call.emit("Sub", one, saturation)
    channels = [call.emit("Mul", call.emit("Add", grey, call.emit("Mul", saturation, p)), value) for p in pure]
    return call.emit("Concat", *channels, axis=-1)


@converter("RGBToHSV")
def to_hsv(call: Call) -> Value:
    """Hue, saturation, value."""
    return call.emit("Concat", *_hsv(call, call.operand(0)), axis=-1)


@converter("HSVToRGB")
def to_rgb(call: Call) -> Value:
    """Red, green, blue."""
    return _rgb(call, *_channels(call, call.operand(0)))


@converter("AdjustHue")
def adjust_hue(call: Call) -> Value:
    """Operands: image, what to turn the hue by."""
    hue, saturation, value = _hsv(call, call.operand(0))
    turned = call.emit("Add", hue, call.cast(call.operand(1), call.dtype(hue)))
    return _rgb(call, _fraction(call, turned), saturation, value)


@converter("AdjustSaturation")
def adjust_saturation(call: Call) -> Value:
    """Operands: image, factor."""
    hue, saturation, value = _hsv(call, call.operand(0))
    scaled = call.emit("Mul", saturation, call.cast(call.operand(1), call.dtype(hue)))
    limited = call.emit("Min", call.emit("Max", scaled, call.like(0, hue)), call.like(1, hue))
    return _rgb(call, hue, limited, value)
