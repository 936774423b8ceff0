"""Code that the SQL tools share: statements with bound values, conversion of rows, and worker threads."""
