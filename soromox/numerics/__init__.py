"""Small numerical tools: quadrature rules, safe norms, full-precision products."""

from soromox.numerics.compilation_cache import (
    enable_compilation_cache as enable_compilation_cache,
)
from soromox.numerics.parameters import Parameters as Parameters
from soromox.numerics.products import apply as apply, einsum as einsum, matmul as matmul
from soromox.numerics.quadrature import gauss_legendre as gauss_legendre
from soromox.numerics.safe import norm as norm, unit as unit
