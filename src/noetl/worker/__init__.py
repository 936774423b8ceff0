"""Workers claim frames, run them under a grant, and report after each effect. They know no other frames."""
