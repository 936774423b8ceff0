"""Static checks of a playbook: names, references, soundness, advice, embedded code."""
