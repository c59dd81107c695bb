import jax
import jax.numpy as jnp
import numpy as np

from soromox.numerics import apply, einsum, matmul


def test_products_are_those_of_numpy_in_full_precision(getkey):
    A = jax.random.normal(getkey(), (4, 3, 5))
    B = jax.random.normal(getkey(), (4, 5, 2))
    x = B[..., 0]
    for product, arguments, expected in [
        (matmul, (A, B), np.matmul(A, B)),
        (apply, (A, x), np.matmul(A, B)[..., 0]),
        (apply, (A, B), np.matmul(A, B)),
        (lambda A, B: einsum("kij,kjl->kil", A, B), (A, B), np.matmul(A, B)),
    ]:
        np.testing.assert_allclose(product(*arguments), expected, rtol=0, atol=1e-14)
        jaxpr = str(jax.make_jaxpr(product)(*map(jnp.float32, arguments)))
        # no product that may be rounded to a shorter format: full precision, or no dot at all
        assert jaxpr.count("dot_general[") == jaxpr.count("precision=(Precision.HIGHEST")
