"""Which messages somebody wants: tags, SQL92, and what our tools take besides."""
