"""`make quickstart`: a year of real flights through an embedded broker, with every flight accounted for."""
