"""What every group of settings is."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A group of settings: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")
