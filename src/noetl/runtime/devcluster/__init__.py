"""A distributed deployment on one machine for development: `noetl up`."""
