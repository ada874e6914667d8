// Commerce: pure values: ids, products, catalogue, grants, ledger entries.
