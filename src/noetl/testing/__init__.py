"""For tests, ours and those of others: scenarios that read as transcripts, and what plays them."""
