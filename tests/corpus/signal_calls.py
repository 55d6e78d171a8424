"""tf.signal: Fourier and cosine transforms, frames, windows."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.corpus.calls import call, complex_, double, gradients_of, real

BASE = [
    call("fft", tf.signal.fft, complex_(3, 8)),
    call("fft c128", tf.signal.fft, complex_(3, 8, dtype=np.complex128)),
    call("fft, odd length", tf.signal.fft, complex_(3, 7)),
    call("ifft", tf.signal.ifft, complex_(3, 8)),
    call("fft2d", tf.signal.fft2d, complex_(3, 4, 8)),
    call("ifft2d", tf.signal.ifft2d, complex_(4, 8)),
    call("fft3d", tf.signal.fft3d, complex_(2, 4, 8)),
    call("ifft3d", tf.signal.ifft3d, complex_(2, 4, 8)),
    call("rfft", tf.signal.rfft, real(3, 8)),
    call("rfft f64", tf.signal.rfft, double(3, 8)),
    call("rfft, padded", lambda x: tf.signal.rfft(x, [12]), real(3, 8)),
    call("rfft2d", tf.signal.rfft2d, real(3, 4, 8)),
    call("rfft3d", tf.signal.rfft3d, real(2, 4, 8)),
    call("irfft", tf.signal.irfft, complex_(3, 5)),
    call("irfft, odd length", lambda x: tf.signal.irfft(x, [7]), complex_(3, 5)),
    call("irfft2d", tf.signal.irfft2d, complex_(4, 5)),
    call("fftshift", tf.signal.fftshift, complex_(3, 8)),
    call("ifftshift", tf.signal.ifftshift, complex_(3, 8)),
    call("dct", tf.signal.dct, real(3, 8)),
    call("dct, type 3", lambda x: tf.signal.dct(x, 3, norm="ortho"), real(3, 8)),
    call("idct", tf.signal.idct, real(3, 8)),
    call("mdct", lambda x: tf.signal.mdct(x, 8), real(32)),
    call("frame", lambda x: tf.signal.frame(x, 4, 2), real(3, 11)),
    call("overlap_and_add", lambda x: tf.signal.overlap_and_add(x, 2), real(3, 5, 4)),
    call("stft", lambda x: tf.signal.stft(x, 8, 4), real(3, 32)),
    call("inverse_stft", lambda x: tf.signal.inverse_stft(x, 8, 4), complex_(5, 5)),
    call("hann_window", lambda x: x * tf.signal.hann_window(8), real(8)),
    call("hamming_window", lambda x: x * tf.signal.hamming_window(8), real(8)),
    call("kaiser_window", lambda x: x * tf.signal.kaiser_window(8), real(8)),
    call("mfcc", tf.signal.mfccs_from_log_mel_spectrograms, real(3, 8)),
    call("mel", lambda x: x @ tf.signal.linear_to_mel_weight_matrix(4, 9), real(3, 9)),
]

CALLS = [
    *BASE,
    *gradients_of(BASE, "fft; rfft; irfft; rfft2d; dct; frame; stft"),
]
