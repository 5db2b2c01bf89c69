"""An inventory kept true in place: what sources measure is changed, what a person wrote stays."""
