"""What can go wrong in the compose environment.

ChaosError
├── DockerFailed     a command of Docker's or Compose's ended with an error; carries what it said
├── StaleImage      an image is of another commit than the report would name
└── StoryFailed      the environment did not come as far as the fault, so that nothing was shown
"""

from state.errors import TideoverError


class ChaosError(TideoverError):
    """The compose environment could not do what was requested."""

    kind = "chaos"


class DockerFailed(ChaosError):
    """A command of Docker's or Compose's ended with an error."""

    kind = "docker-failed"


class StaleImage(ChaosError):
    """An image is of another commit than the report would name."""

    kind = "stale-image"


class ScenarioFailed(ChaosError):
    """The environment did not come as far as the fault."""

    kind = "story-failed"
