"""Point loads and distributed loads on rods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.systems import GVS, PCS, GVSSegment, JointSpec, LinkSpec, PlanarPCS, StrainBasisSpec


LINK = LinkSpec.circular(
    length=0.2, radius=0.01, density=1200.0, young_modulus=1e6, poisson_ratio=0.4
)


@pytest.fixture(scope="module")
def rod() -> PCS:
    return PCS.from_links([LINK, LINK], gravity=[0.0, 0.0, 0.0], actuators=())


def test_point_load_is_the_gradient_of_its_work(rod):
    q = jnp.linspace(-0.4, 0.5, 12)
    force = jnp.array([0.3, -0.2, 0.5])
    work = lambda q: force @ rod.forward_kinematics(q, 0.3)[:3, 3]
    wrench = jnp.concatenate([jnp.zeros(3), force])
    np.testing.assert_allclose(
        rod.external_force(q, 0.3, wrench), jax.jit(jax.grad(work))(q), rtol=1e-12, atol=1e-15
    )


def test_weight_as_a_distributed_load(rod):
    """A load of rho A g per metre is gravity, whose force has the other sign."""
    q = jnp.linspace(-0.4, 0.5, 12)
    heavy = PCS.from_links([LINK, LINK], gravity=[1.0, 2.0, -9.0], actuators=())
    weight = 1200.0 * np.pi * 0.01**2 * np.array([0, 0, 0, 1.0, 2.0, -9.0])
    expected = -heavy.gravitational_force(q)
    np.testing.assert_allclose(rod.distributed_force(q, weight), expected, rtol=1e-12, atol=1e-14)
    varying = rod.distributed_force(q, lambda s: jnp.asarray(weight) * (0 * s + 1))
    np.testing.assert_allclose(varying, expected, rtol=1e-12, atol=1e-14)


def test_weight_on_a_floating_chain_with_joints():
    """Soft and rigid links behind moving joints carry the load alike."""
    segments = [
        GVSSegment(LINK, JointSpec.revolute("y"), StrainBasisSpec("legendre", ["kappa_z"], 1)),
        GVSSegment(LINK, JointSpec.prismatic("y")),
    ]
    gravity = np.array([1.0, 2.0, -9.0])
    robot = GVS.from_segments(segments, gravity=gravity, floating_base=True, actuators=())
    q = jnp.linspace(-0.4, 0.5, 10)
    weight = 1200.0 * np.pi * 0.01**2 * np.pad(gravity, (3, 0))
    load, gravitational = jax.jit(
        lambda q: (robot.distributed_force(q, weight), robot.gravitational_force(q))
    )(q)
    np.testing.assert_allclose(load, -gravitational, rtol=1e-12, atol=1e-14)


def test_refused_loads(rod):
    with pytest.raises(ValueError, match="`wrench` needs shape"):
        rod.external_force(np.zeros(12), 0.1, np.zeros(3))
    with pytest.raises(ValueError, match="`density` needs shape"):
        rod.distributed_force(np.zeros(12), np.zeros(3))
    flat = PlanarPCS.from_links([LINK], actuators=())
    with pytest.raises(ValueError, match=r"`density\(s\)` needs shape"):
        flat.distributed_force(np.zeros(3), lambda s: jnp.zeros(6))
