"""Commands as a shell starts them in the background: deaf to the signal of Ctrl-C, as all that they start is then."""


def deaf(*command: str) -> list[str]:
    """The command, for ``subprocess``."""
    return ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
