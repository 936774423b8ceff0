"""Results in object stores, through obstore, which is imported only if one is configured."""
