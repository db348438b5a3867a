"""`make quickstart`: a year of real flights through an embedded broker, every one of them accounted for."""
