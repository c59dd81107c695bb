"""A rod of constant-strain segments in plain NumPy: matrix exponentials and complex-step derivatives.

It shares no code with `soromox`. The plane is embedded in space.
"""

import dataclasses

import numpy as np
from scipy.linalg import expm


@dataclasses.dataclass
class IndependentRod:
    """Segments with `strain = basis @ q + reference`, all spatial."""

    length: np.ndarray  # (N,)
    reference: np.ndarray  # (N, 6)
    basis: list[np.ndarray]  # (6, n_i) each
    inertia: np.ndarray  # (N, 6) density times [Ix, Iy, Iz, A, A, A]
    gravity: np.ndarray  # (3,)
    base: np.ndarray  # (4, 4)
    num_points: int

    def pose(self, q, s):
        g = self.base.astype(np.result_type(q, float))
        start = 0
        for length, reference, basis in zip(self.length, self.reference, self.basis, strict=True):
            xi = reference + basis @ q[start : start + basis.shape[1]]
            start += basis.shape[1]
            g = g @ expm(min(s, length) * hat(xi))
            s = max(s - length, 0.0)
        return g

    def body_jacobian(self, q, s):
        g = self.pose(q, s)
        columns = []
        for direction in np.eye(len(q)):
            rate = np.imag(self.pose(q + 1e-30j * direction, s)) / 1e-30
            columns.append(vee(np.linalg.solve(g, rate)))
        return np.array(columns).T

    def nodes(self):
        X, w = np.polynomial.legendre.leggauss(self.num_points)
        ends = np.concatenate([[0.0], np.cumsum(self.length)])
        for i, length in enumerate(self.length):
            for x, weight in zip((X + 1) / 2, w / 2, strict=True):
                yield ends[i] + x * length, weight * length * self.inertia[i]

    def inertia_matrix(self, q):
        total = 0
        for s, inertia in self.nodes():
            J = self.body_jacobian(q, s)
            total = total + J.T @ (inertia[:, None] * J)
        return total

    def gravitational_energy(self, q):
        return -sum(m[5] * self.gravity @ self.pose(q, s)[:3, 3] for s, m in self.nodes())

    def gravitational_force(self, q):
        steps = 1e-30j * np.eye(len(q))
        return np.array([np.imag(self.gravitational_energy(q + step)) / 1e-30 for step in steps])

    def coriolis_force(self, q, qd, step=2e-3):
        """Christoffel symbols by central differences of fourth order: good to about 1e-9."""

        def slope(direction):
            M = [self.inertia_matrix(q + k * step * direction) for k in (-2, -1, 1, 2)]
            return (M[0] - 8 * M[1] + 8 * M[2] - M[3]) / (12 * step)

        dM = [slope(direction) for direction in np.eye(len(q))]
        rate = sum(v * slope for v, slope in zip(qd, dM, strict=True))
        return rate @ qd - 0.5 * np.array([qd @ slope @ qd for slope in dM])


def hat(xi):
    (a, b, c), v = xi[:3], xi[3:]
    matrix = np.zeros((4, 4), dtype=xi.dtype)
    matrix[:3, :3] = [[0, -c, b], [c, 0, -a], [-b, a, 0]]
    matrix[:3, 3] = v
    return matrix


def vee(matrix):
    return np.array([matrix[2, 1], matrix[0, 2], matrix[1, 0], *matrix[:3, 3]])
