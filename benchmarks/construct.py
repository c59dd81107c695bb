"""Construction of rods in fresh processes: nothing is compiled yet, as when a script starts.

A 16-segment PCS and a 4-link GVS should each take less than 0.3 s after the import.
"""

import json
import subprocess
import sys

from timing import report


START = """
import json, time
import jax
jax.config.update("jax_enable_x64", True)
from soromox.systems import *
link = LinkSpec.circular(
    length=0.1,
    radius=0.02,
    density=1000.0,
    young_modulus=1e6,
    poisson_ratio=0.49,
    material_damping_coefficient=1e4,
)
clock, work = time.perf_counter(), time.process_time()
"""
ROBOTS = {
    "PCS, 16 segments": "robot = PCS.from_links([link] * 16)",
    "GVS, 4 links": """
joints = JointSpec.fixed(), JointSpec.revolute("y"), JointSpec.spherical(), JointSpec.helical("x", 0.01)
families = "legendre", "monomial", "chebyshev", "gaussian"
robot = GVS.from_segments(
    [GVSSegment(link, joint, StrainBasisSpec(family, None, 2)) for joint, family in zip(joints, families)]
)
""",
}
END = """
jax.block_until_ready(jax.tree.leaves(robot))
print(json.dumps({"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - work,
                  "dofs": robot.num_dofs}))
"""

for name, construction in ROBOTS.items():
    command = [sys.executable, "-c", START + construction + END]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(5)
    ]
    report("construct", robot=name, **min(runs, key=lambda run: run["seconds"]))
