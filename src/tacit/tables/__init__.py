"""Published tables: their recipes run or collected, our figures beside theirs, and the ledger of every cell."""
