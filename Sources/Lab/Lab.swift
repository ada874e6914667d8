// Lab: load generator and fault harness.
