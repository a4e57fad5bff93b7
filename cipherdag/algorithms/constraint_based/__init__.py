"""The core of constraint-based algorithms: skeleton, separating sets, colliders, report."""
