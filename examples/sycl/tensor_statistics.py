#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Statistics of a made-up signal, computed on a SYCL device by dpctl.tensor and checked by numpy.

An ordinary SYCL program with nothing specific to Kiln. Each kind of kernel that it uses is a
separate device image, which the SYCL runtime passes to the driver in each process to be compiled.
"""

import time

START_NS = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

import argparse
import itertools
import json
import sys

import dpctl
import dpctl.tensor as tensor
import numpy

COUNT = 40_000
ROWS, COLUMNS = 200, 200
CUT = 0.5  # samples above this count as loud


def compute(device):
    """Yields the name of each result and the result, as soon as it is in host memory."""

    def host(array):
        return tensor.asnumpy(array)

    steps = tensor.arange(COUNT, dtype="f4", device=device)
    yield "steps", host(steps)

    signal = tensor.sqrt(steps) / 200 * tensor.sin(steps / 50)
    yield "signal", host(signal)

    loud = tensor.abs(signal) > CUT
    yield "loud samples", host(tensor.count_nonzero(loud))
    yield "clipped", host(tensor.where(loud, tensor.sign(signal) * CUT, signal))
    yield "where loud", host(tensor.nonzero(loud)[0])

    yield "sum", host(tensor.sum(signal))
    yield "least and greatest", host(tensor.stack([tensor.min(signal), tensor.max(signal)]))
    yield "place of the greatest", host(tensor.argmax(signal))
    yield "running sum", host(tensor.cumulative_sum(signal))
    yield "sorted", host(tensor.sort(signal))

    table = tensor.reshape(signal, (ROWS, COLUMNS))
    yield "mean of rows", host(tensor.mean(table, axis=1))
    yield "deviation of columns", host(tensor.std(table, axis=0))
    yield "covariance", host(tensor.matmul(table, tensor.matrix_transpose(table)) / COLUMNS)

    digits = tensor.astype(tensor.abs(signal) * 10, "i4")
    digit, times = tensor.unique_counts(digits)
    yield "digits", host(digit)
    yield "times of each digit", host(times)
    yield "first places", host(tensor.searchsorted(tensor.sort(digits), digit))
    yield "both ends", host(tensor.concat([signal[:100], tensor.flip(signal)[:100]]))


def expected(device_results):
    """Computes the same results with numpy. Each step starts from the device's result of the step
    before, so rounding errors do not add up."""
    steps = numpy.arange(COUNT, dtype="f4")
    yield "steps", steps
    yield "signal", numpy.sqrt(steps) / 200 * numpy.sin(steps / 50)

    signal = device_results["signal"]
    loud = numpy.abs(signal) > CUT
    yield "loud samples", numpy.count_nonzero(loud)
    yield "clipped", numpy.clip(signal, -CUT, CUT)
    yield "where loud", numpy.nonzero(loud)[0]

    yield "sum", numpy.sum(signal, dtype="f8")
    yield "least and greatest", numpy.stack([numpy.min(signal), numpy.max(signal)])
    yield "place of the greatest", numpy.argmax(signal)
    yield "running sum", numpy.cumsum(signal, dtype="f8")
    yield "sorted", numpy.sort(signal)

    table = signal.reshape(ROWS, COLUMNS).astype("f8")
    yield "mean of rows", numpy.mean(table, axis=1)
    yield "deviation of columns", numpy.std(table, axis=0)
    yield "covariance", table @ table.T / COLUMNS

    digits = (numpy.abs(signal) * 10).astype("i4")
    digit, times = numpy.unique(digits, return_counts=True)
    yield "digits", digit
    yield "times of each digit", times
    yield "first places", numpy.searchsorted(numpy.sort(digits), digit)
    yield "both ends", numpy.concatenate([signal[:100], signal[::-1][:100]])


# Floats that numpy may round differently from the device. All other results must be equal.
ROUNDED = {
    "signal": 1e-4,
    "sum": 0.01,
    "running sum": 0.01,
    "mean of rows": 1e-5,
    "deviation of columns": 1e-4,
    "covariance": 1e-4,
}


def is_right(name, got, wanted):
    wanted = numpy.asarray(wanted)
    if got.shape != wanted.shape:
        return False
    if name in ROUNDED:
        return bool(numpy.all(numpy.abs(got - wanted) <= ROUNDED[name]))
    return bool(numpy.array_equal(got, wanted))


def describe(result):
    """A text that is coarse enough to be the same for every right result."""
    if result.ndim > 0:
        return " x ".join(str(length) for length in result.shape) + " numbers"
    return f"{result.item():.1f}" if result.dtype.kind == "f" else str(result.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="opencl:cpu", help="as in ONEAPI_DEVICE_SELECTOR")
    parser.add_argument("--results", type=int, help="compute only this many results")
    parser.add_argument("--json", action="store_true", help="add a line with the times")
    options = parser.parse_args()

    device = dpctl.SyclDevice(options.device)
    results = {}
    times = {"start_ns": START_NS, "device_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}
    for name, result in itertools.islice(compute(device), options.results):
        results[name] = result
        times.setdefault("first_result_ns", time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    times["results_ns"] = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    wrong = 0
    for name, wanted in itertools.islice(expected(results), options.results):
        right = is_right(name, results[name], wanted)
        wrong += not right
        print(f"{name:22} {describe(results[name]):>17}: {'right' if right else 'WRONG'}")
    if options.json:
        print(json.dumps(times))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
