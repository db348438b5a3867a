"""Manual pages: what one says (``pages``), and how it is written (``man_page``)."""
