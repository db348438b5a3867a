"""Tables: rows as data, columns, and how they are drawn line by line."""
