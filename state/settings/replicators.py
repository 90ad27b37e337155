"""What replicates along a route: the kind decides what its copies are like, and who reports how they are."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from state.settings.frozen import Settings
from state.settings.values import login_mistakes


class ReplicatorKind(StrEnum):
    """Kinds of replicators, by what their copies have in common with the originals."""

    MIRROR_MAKER = "mirror-maker-2"
    """Records again, at other offsets."""
    MSK_REPLICATOR = "msk-replicator"
    """MirrorMaker 2 as a service."""
    CLUSTER_LINKING = "cluster-linking"
    """Bytes and offsets; a copy takes no other record until it is promoted or failed over."""
    SHADOWING = "shadowing"
    """The same, of Redpanda."""
    CLUSTER_MIRRORING = "cluster-mirroring"
    """The same, of Kafka itself (KIP-1279)."""


OF_SAME_OFFSETS = frozenset(
    {ReplicatorKind.CLUSTER_LINKING, ReplicatorKind.SHADOWING, ReplicatorKind.CLUSTER_MIRRORING}
)
"""Kinds whose copies are at the offsets of the originals."""


class Replicator(Settings):
    """Who copies along a route. ``url`` and what follows is for those that report how their copies are.

    The password is by reference (``env:NAME`` or ``file:PATH``), and read by each request.
    """

    kind: ReplicatorKind
    url: Annotated[str, Field(pattern=r"^https?://[^/@\s]+(/[^@\s]*)?$")] | None = None
    """Of ``cluster-linking`` the link in the REST API of the target, ``https://HOST/kafka/v3/clusters/ID/links/LINK``;
    of ``shadowing`` the admin API of the target, ``http://HOST:9644``."""
    link: str | None = None
    """Name of the shadow link."""
    username: str | None = None
    password: SecretStr | None = None
    ca: str | None = None
    """Authority that signed the certificate of ``url`` (PEM); None: those of this system."""

    @model_validator(mode="after")
    def _reports(self) -> Self:
        mistakes = []
        reporting = {ReplicatorKind.CLUSTER_LINKING, ReplicatorKind.SHADOWING}
        if self.url is not None and self.kind not in reporting:
            mistakes.append(f"url: only cluster-linking and shadowing report their copies, not {self.kind}")
        if (self.link is not None) != (self.kind is ReplicatorKind.SHADOWING and self.url is not None):
            mistakes.append("link: the name of a shadow link belongs to kind: shadowing with url, and to nothing else")
        mistakes += login_mistakes(self.url, self.username, self.password)
        if self.url is None and (self.username is not None or self.ca is not None):
            mistakes.append("url: username, password and ca are for its requests, so name it")
        if mistakes:
            raise ValueError("\n".join(mistakes))
        return self

    @property
    def keeps_offsets(self) -> bool:
        """Whether its copies are said to be at the same offsets."""
        return self.kind in OF_SAME_OFFSETS
