"""Read-only diagnosis of a deployment: `noetl doctor`."""
