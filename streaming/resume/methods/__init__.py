"""The methods by which a resume offset is found."""
