"""Message filters: tags, SQL92, and the conditions of our tools."""
