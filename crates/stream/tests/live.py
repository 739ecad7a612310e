#!/usr/bin/env python3
# What SciPy makes of a noise by stages as a graph's text has them: live.py CASES NOISE DIRECTORY. CASES has a stage a line, NOISE f32 at 48 kHz; the n-th
# result goes to DIRECTORY/n, f64. crates/stream/tests/signals.rs calls it. Needs numpy and scipy.
import sys
import numpy as np
from scipy import signal

RATE = 48000.0
cases, noise, to = sys.argv[1:]
x = np.fromfile(noise, dtype="<f4").astype(np.float64)


def band(kind, hz, q):
    w = 2 * RATE * np.tan(np.pi * hz / RATE)
    bottom = [1, w / q, w * w]
    top = {"lowpass": [w * w], "highpass": [1, 0, 0], "bandpass": [w / q, 0], "notch": [1, 0, w * w]}[kind]
    return signal.lfilter(*signal.bilinear(top, bottom, RATE), x)


def line(d, b, a):
    num, den = np.zeros(d + 1), np.zeros(d + 1)
    num[0], num[d], den[0], den[d] = b[0], b[1], a[0], a[1]
    return num, den


def reverb(seconds, mix):
    def comb(s):
        d = round(s * RATE)
        return signal.lfilter(*line(d, (0, 1), (1, -(10 ** (-3.0 * s / seconds)))), x)

    wet = sum(comb(s) for s in (0.0297, 0.0371, 0.0411, 0.0437)) / 4
    for s in (0.005, 0.0017):
        wet = signal.lfilter(*line(round(s * RATE), (-0.7, 1), (1, -0.7)), wet)
    return (1 - mix) * x + mix * wet


def made(text):
    words = text.replace('"', "").split()
    kind, keyed = words[0], dict(w.split("=") for w in words if "=" in w)
    values = [float(w) for w in words[1:] if "=" not in w]
    if kind in ("lowpass", "highpass") and "order" in keyed:
        return signal.sosfilt(signal.butter(int(keyed["order"]), values[0], kind[:-4], fs=RATE, output="sos"), x)
    if kind in ("lowpass", "highpass", "bandpass", "notch"):
        return band(kind, values[0], float(keyed["q"]))
    if kind == "fir":
        return signal.lfilter(values, [1.0], x)
    d = round(values[0] * RATE)
    if kind == "delay":
        return np.concatenate([np.zeros(d), x])[: len(x)]
    if kind == "echo":
        # y = x + e, and e comes d samples later: what went in, and e again, softer.
        return x + signal.lfilter(*line(d, (0, 1), (1, -values[1])), x)
    if kind == "reverb":
        return reverb(values[0], float(keyed["mix"]))
    sys.exit("no such stage: " + text)


for n, text in enumerate(open(cases).read().splitlines()):
    made(text).astype("<f8").tofile(f"{to}/{n}")
print(f"{n + 1} stages")
