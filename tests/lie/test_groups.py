"""Laws of both groups of rigid motions, and their agreement in the plane."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.lie import Group, se2, se3
from tests.lie import reference as ref


GROUPS = pytest.mark.parametrize("group", [se3, se2], ids=["se3", "se2"])
PUBLIC = [name for name in vars(Group) if inspect.isfunction(getattr(Group, name))]
PUBLIC = [name for name in PUBLIC if not name.startswith("_")]
TOLERANCE = {"rtol": 0, "atol": 1e-15}  # entries are of order one: a few ulp


def twists(group, getkey, count):
    return 0.7 * jax.random.normal(getkey(), (count, group.DIM))


@functools.cache
def example_arguments(group, dtype):
    """One argument of each name that the functions of a group use."""
    X = jnp.linspace(-0.7, 0.9, group.DIM, dtype=dtype)
    Y = jnp.linspace(0.4, -1.3, group.DIM, dtype=dtype)
    g, h = group.exp(X), group.exp(Y)
    R, p = group.rotation(h), group.translation(h)
    vector = group.pose_to_vector(g)
    arguments = {"X": X, "Y": Y, "dX": Y, "F": Y, "g": g, "h": h}
    return arguments | {"R": R, "p": p, "point": p, "vector": vector, "dtype": dtype}


def call(group, name, dtype):
    function = getattr(group, name)
    everything = example_arguments(group, dtype)
    arguments = {key: everything[key] for key in inspect.signature(function).parameters}
    static = {"dtype": arguments.pop("dtype")} if "dtype" in arguments else {}
    return lambda **more: function(**more, **static), arguments


@GROUPS
def test_module_offers_the_protocol(group):
    assert isinstance(group, Group)
    for name in PUBLIC:
        wanted = list(inspect.signature(getattr(Group, name)).parameters)[1:]
        assert list(inspect.signature(getattr(group, name)).parameters) == wanted, name


@pytest.mark.parametrize("name", PUBLIC)
@GROUPS
def test_float32_stays_float32_and_products_are_exact(group, name):
    f, arguments = call(group, name, jnp.float32)
    jaxpr = jax.make_jaxpr(lambda arguments: f(**arguments))(arguments)
    assert all(result.dtype == jnp.float32 for result in jaxpr.out_avals)
    # An accelerator would round a product of default precision to three digits.
    text = str(jaxpr)
    assert text.count("dot_general[") == text.count("precision=(Precision.HIGHEST")


def assert_equal_pairs(pairs):
    """Compiles all pairs as one program and compares them."""
    for name, (actual, expected) in jax.jit(pairs)().items():
        np.testing.assert_allclose(actual, expected, **TOLERANCE, err_msg=name)


@GROUPS
def test_group_laws(group, getkey):
    X, Y = twists(group, getkey, 2)
    identity = group.identity(X.dtype)
    point = jnp.linspace(-1.0, 0.6, group.POINT_DIM)

    def pairs():
        g, h = group.exp(X), group.exp(Y)
        R, p = group.rotation(g), group.translation(g)
        inverse = group.inverse(g)
        return {
            "right inverse": (group.compose(g, inverse), identity),
            "left inverse": (group.compose(inverse, g), identity),
            "identity": (group.compose(g, identity), g),
            "action": (group.act(group.compose(g, h), point), group.act(g, group.act(h, point))),
            "inverse action": (group.act(inverse, group.act(g, point)), point),
            "formula": (group.act(g, point), R @ point + p),
            "parts": (group.from_rotation_translation(R, p), g),
            "vector": (group.pose_from_vector(group.pose_to_vector(g)), g),
        }

    assert_equal_pairs(pairs)


@GROUPS
def test_adjoint_laws(group, getkey):
    X, Y, F = twists(group, getkey, 3)
    Ad_exact = ref.to_float(ref.power_series(ref.exactly(group.ad(X)), 0))

    def pairs():
        g, h = group.exp(X), group.exp(Y)
        conjugate = group.compose(group.compose(g, h), group.inverse(g))
        ad, momentum = group.ad(X), group.momentum_matrix(F)
        return {
            "exponential": (group.Ad(g), Ad_exact),
            "product": (group.Ad(group.compose(g, h)), group.Ad(g) @ group.Ad(h)),
            "inverse": (group.Ad_inverse(g), group.Ad(group.inverse(g))),
            "conjugation": (group.log(conjugate), group.Ad(g) @ Y),
            "bracket": (group.bracket(X, Y), ad @ Y),
            "antisymmetry": (group.bracket(X, Y), -group.bracket(Y, X)),
            "cobracket": (group.cobracket(X, F), ad.T @ F),
            "momentum": (momentum @ X, ad.T @ F),
            "momentum antisymmetry": (momentum, -momentum.T),
        }

    assert_equal_pairs(pairs)


@GROUPS
def test_coriolis_block_is_skew_and_gives_the_gyroscopic_force(group, getkey):
    (eta,) = twists(group, getkey, 1)
    root = 0.4 * jax.random.normal(getkey(), (group.DIM, group.DIM))

    def pairs():
        mass, ad = root @ root.T, group.ad(eta)
        N = 0.5 * (mass @ ad - ad.T @ mass - group.momentum_matrix(mass @ eta))
        return {
            "skew": (N, -N.T),
            "force": (N @ eta, -group.cobracket(eta, mass @ eta)),
        }

    assert_equal_pairs(pairs)


@GROUPS
def test_tangent_map_is_the_body_jacobian_of_exp(group, getkey):
    X, dX = twists(group, getkey, 2)

    def pairs():
        to_here = group.inverse(group.exp(X))
        local = lambda Y: group.log(group.compose(to_here, group.exp(Y)))
        rate = jax.jvp(local, (X,), (dX,))[1]
        product = group.tangent_inverse(X) @ group.tangent(X)
        return {
            "rate": (rate, group.tangent(-X) @ dX),
            "inverse": (product, jnp.eye(group.DIM)),
        }

    assert_equal_pairs(pairs)


@GROUPS
def test_log_inverts_exp(group):
    angles = jnp.array([0, 1e-300, 1e-8, 1e-3, 1, 2, 3.1])[:, None]
    axis = jnp.array([[0.48, -0.6, 0.64]]) if group is se3 else jnp.ones((1, 1))
    v = jnp.broadcast_to(jnp.linspace(0.8, -0.5, group.POINT_DIM), (7, group.POINT_DIM))
    X = jnp.concatenate([angles * axis, v], axis=1)
    round_trip = lambda X: group.log(group.exp(X))
    result = jax.jit(jax.vmap(round_trip))(X)
    options = {"xla_backend_optimization_level": 0}  # half the compile time
    jacobian = jax.jit(jax.vmap(jax.jacrev(round_trip)), compiler_options=options)(X)
    np.testing.assert_allclose(result, X, rtol=0, atol=2e-15)
    exact = np.broadcast_to(np.eye(group.DIM), jacobian.shape)
    np.testing.assert_allclose(jacobian, exact, rtol=0, atol=5e-15)


@GROUPS
def test_rotate_changes_axes_and_keeps_the_origin(group, getkey):
    X, Y, F = twists(group, getkey, 3)
    columns = jnp.stack([Y, F], axis=1)

    def pairs():
        g = group.exp(X)
        turn_only = group.from_rotation_translation(group.rotation(g), 0 * group.translation(g))
        return {
            "vector": (group.rotate(g, Y), group.Ad(turn_only) @ Y),
            "columns": (group.rotate(g, columns), group.Ad(turn_only) @ columns),
            "back": (group.rotate_inverse(g, Y), group.Ad_inverse(turn_only) @ Y),
            "both": (group.rotate_inverse(g, group.rotate(g, columns)), columns),
        }

    assert_equal_pairs(pairs)


def test_planar_angle_is_not_wrapped():
    turn = jnp.array([5.0, 0.1, 0.2])
    assert se2.compose(turn, turn)[0] == 10.0
    np.testing.assert_allclose(se2.exp(se2.log(2 * turn)), 2 * turn, **TOLERANCE)


# w is about z, v in the plane
EMBED = np.zeros((6, 3))
EMBED[[2, 3, 4], [0, 1, 2]] = 1


@pytest.mark.parametrize("name", PUBLIC)
def test_plane_is_the_restriction_of_space(name):
    f, arguments = call(se2, name, jnp.float64)
    g, _ = call(se3, name, jnp.float64)

    def lift(key, value):
        if key in ("X", "Y", "dX", "F"):
            return jnp.asarray(EMBED @ value)
        if key in ("g", "h", "vector"):
            return vector_in_space(value) if key == "vector" else pose_in_space(value)
        if key == "R":
            return jnp.eye(3).at[:2, :2].set(value)
        return jnp.append(value, 0.0)

    lifted = {key: lift(key, value) for key, value in arguments.items()}
    planar, spatial = jax.jit(lambda a, b: (f(**a), g(**b)))(arguments, lifted)
    if spatial.shape == (6, 6):
        planar, spatial = EMBED @ planar, spatial @ EMBED
        if name != "momentum_matrix":  # its other rows are the reactions of the plane
            assert np.all(np.asarray(spatial)[[0, 1, 5]] == 0)
    elif spatial.shape == (6,):
        planar = EMBED @ planar
    elif spatial.shape == (7,):
        planar = vector_in_space(planar)
    elif spatial.shape == (4, 4):
        planar = pose_in_space(planar)
    elif spatial.shape == (3, 3):
        planar = jnp.eye(3).at[:2, :2].set(planar)
    else:
        planar = jnp.append(planar, 0.0)
    np.testing.assert_allclose(spatial, planar, **TOLERANCE)


def pose_in_space(pose):
    angle, x, y = np.asarray(pose)
    c, s = np.cos(angle), np.sin(angle)
    return jnp.array([[c, -s, 0, x], [s, c, 0, y], [0, 0, 1, 0], [0, 0, 0, 1]])


def vector_in_space(pose):
    angle, x, y = np.asarray(pose)
    return jnp.array([0, 0, np.sin(angle / 2), np.cos(angle / 2), x, y, 0])
