"""Manual pages: their content (``pages``), and how they are written (``man_page``)."""
