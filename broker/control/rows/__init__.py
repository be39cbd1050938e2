"""What the views answer: rows, as values, a file for each thing that an operator looks at."""
