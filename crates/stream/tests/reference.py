#!/usr/bin/env python3
# Writes tests/reference/*.txt: what SciPy makes of a noise that crates/stream/tests/signals.rs makes alike. Needs numpy and scipy.
import os
import numpy as np
from scipy import signal

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference")
os.makedirs(here, exist_ok=True)
N, RATE = 400, 48000.0


def noise(n):
    state, out = 1, []
    for _ in range(n):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(np.float32((state >> 8) / 2**23 - 1.0))
    return np.array(out, dtype=np.float64)


def write(name, y):
    np.savetxt(os.path.join(here, name + ".txt"), y, fmt="%.9e")


x = noise(N)
write("lowpass", signal.sosfilt(signal.butter(2, 800, "low", fs=RATE, output="sos"), x))
write("lowpass4", signal.sosfilt(signal.butter(4, 3000, "low", fs=RATE, output="sos"), x))
write("highpass", signal.sosfilt(signal.butter(2, 5000, "high", fs=RATE, output="sos"), x))
w0 = 2 * RATE * np.tan(np.pi * 2000 / RATE)
b, a = signal.bilinear([w0 / 3.0, 0], [1, w0 / 3.0, w0 * w0], RATE)
write("bandpass", signal.lfilter(b, a, x))
b, a = signal.bilinear([1, 0, w0 * w0], [1, w0 / 3.0, w0 * w0], RATE)
write("notch", signal.lfilter(b, a, x))
write("fir", signal.lfilter([0.5, -0.25, 0.125, 1.0], [1.0], x))
b = np.zeros(121); b[120] = 1.0
write("delay", signal.lfilter(b, [1.0], x))
a = np.zeros(121); a[0], a[120] = 1.0, -0.5
num = a.copy(); num[120] += 1.0
write("echo", signal.lfilter(num, a, x))
t = 0.1


def comb(d, s):
    a = np.zeros(d + 1); a[0] = 1.0; a[d] = -10 ** (-3.0 * s / t)
    b = np.zeros(d + 1); b[d] = 1.0
    return signal.lfilter(b, a, y0)


y0 = np.concatenate([x, np.zeros(4000)])
wet = sum(comb(round(s * RATE), s) for s in (0.0297, 0.0371, 0.0411, 0.0437)) / 4
for s in (0.005, 0.0017):
    d = round(s * RATE)
    b = np.zeros(d + 1); b[0], b[d] = -0.7, 1.0
    a = np.zeros(d + 1); a[0], a[d] = 1.0, -0.7
    wet = signal.lfilter(b, a, wet)
write("reverb", (0.7 * y0 + 0.3 * wet)[1400:2400])
win = signal.windows.hann(128, sym=False)
write("spectrum", np.abs(np.fft.rfft(x[:128] * win)) * 4 / 128)
c = [np.sum(x[l:100] * x[: 100 - l]) / np.sum(x[:100] ** 2) * 100 / (100 - l) for l in range(20)]
write("correlate", c)
