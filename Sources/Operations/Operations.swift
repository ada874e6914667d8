// Operations: inspect and repair.
