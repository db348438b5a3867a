"""Long texts and JSON: lines that are made when they are drawn."""
