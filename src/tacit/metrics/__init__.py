"""Pure functions of scores and labels, with an explicit mask and an explicit rule for classes without positives."""
