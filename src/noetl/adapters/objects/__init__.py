"""Large results in object stores, through obstore, which is imported only when one is configured."""
