"""What may be requested over HTTP, by forms and by programs."""
