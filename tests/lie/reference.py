"""Exact values and derivatives of the maps by their defining power series.

Matrices are NumPy arrays of Python integers in units of 2^-BITS (fixed point): 105 digits, a hundred
times faster than mpmath. Derivatives are finite differences of these values with a step of 2^-90, so
they are right to 25 digits.
"""

from fractions import Fraction

import numpy as np


BITS = 350
STEP = 2 ** (BITS - 90)
ONE = 2**BITS


def exactly(x):
    """Fixed-point image of an array of floats (an angle of 1e-300 becomes 0)."""
    return np.vectorize(lambda a: round(Fraction(float(a)) * ONE), otypes=[object])(x)


def to_float(x):
    return np.vectorize(lambda a: a / ONE, otypes=[float])(x)


def multiply(A, B):
    return (A @ B) // ONE


def power_series(A, offset):
    """`sum_k A^k / (k + offset)!`, offset 0 or 1."""
    term = total = eye(len(A))
    k = 0
    while np.any(np.abs(term) > 1):
        k += 1
        term = multiply(term, A) // (k + offset)
        total = total + term
    return total


def inverse(A):
    """Gauss-Jordan elimination with pivoting."""
    n = len(A)
    work = np.concatenate([A, eye(n)], axis=1)
    for i in range(n):
        pivot = i + int(np.argmax(np.abs(work[i:, i])))
        work[[i, pivot]] = work[[pivot, i]]
        work[i] = work[i] * ONE // work[i, i]
        for j in set(range(n)) - {i}:
            work[j] = work[j] - work[i] * work[j, i] // ONE
    return work[:, n:]


def eye(n):
    return np.eye(n, dtype=int).astype(object) * ONE


def hat(w):
    x, y, z = w
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=object)


def spatial_ad(X):
    w, v = hat(X[:3]), hat(X[3:])
    return np.block([[w, 0 * w], [v, w]])


def spatial_generator(X):
    A = np.zeros((4, 4), dtype=object)
    A[:3, :3], A[:3, 3] = hat(X[:3]), X[3:]
    return A


def planar_ad(X):
    w, vx, vy = X
    return np.array([[0, 0, 0], [vy, 0, -w], [-vx, w, 0]], dtype=object)


def planar_generator(X):
    w, vx, vy = X
    return np.array([[0, -w, vx], [w, 0, vy], [0, 0, 0]], dtype=object)


def planar_exp(X):
    return np.array([X[0], *power_series(planar_generator(X), 0)[:2, 2]], dtype=object)


def derivatives(f, x):
    """Value, Jacobian and Hessian of `f` at the floats `x`, rounded to float64."""
    n = len(x)
    x = exactly(x)
    unit = np.eye(n, dtype=int).astype(object) * STEP
    value = f(x)
    once = [f(x + unit[i]) for i in range(n)]
    jacobian = np.stack([f_i - value for f_i in once], axis=-1) * (ONE // STEP)
    hessian = np.zeros((*value.shape, n, n), dtype=object)
    for i in range(n):
        for j in range(i, n):
            both = f(x + unit[i] + unit[j])
            hessian[..., i, j] = (both - once[i] - once[j] + value) * (ONE // STEP) ** 2
            hessian[..., j, i] = hessian[..., i, j]
    return to_float(value), to_float(jacobian), to_float(hessian)
