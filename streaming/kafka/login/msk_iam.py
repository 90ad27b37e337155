"""Signs a token for an Amazon MSK cluster with the credentials of this process, by Amazon's own library.

The library is optional (``pip install tideover[iam]``). Signing takes no network; to find the credentials may: an
instance's metadata, or STS for a role. A token is good for 15 minutes and is no secret of ours: it is a signed URL.
"""

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from state.settings.security import MskIam
from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.prepared import SILENT
from streaming.kafka.login.tokens import Token, Tokens

_SESSION = "tideover"


def msk_iam(settings: MskIam) -> Tokens:
    """The tokens of one cluster."""
    return Tokens(lambda answered_before: fetch(settings, answered_before=answered_before), lambda: None)


def fetch(settings: MskIam, *, answered_before: bool = False, wall: Callable[[], float] = time.time) -> Token:
    """Sign a token; raises as ``Login.prepare`` does. ``answered_before``: credentials were found once."""
    signer = _library()
    try:
        text, ends_at_ms = _signed(signer, settings)
    except Exception as error:  # noqa: BLE001 - botocore makes its errors at run time, and a missing key is an AttributeError
        raise _failed(settings, error, answered_before=answered_before) from None
    return Token(text, ends_at_ms / 1000 - wall())


def _library() -> ModuleType:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise CredentialRefused(
            "AWS_MSK_IAM needs Amazon's signer, which is not installed", hint="pip install tideover[iam]"
        ) from None
    signer: ModuleType = MSKAuthTokenProvider
    return signer


def _signed(signer: Any, settings: MskIam) -> tuple[str, float]:
    if settings.role is not None:
        return signer.generate_auth_token_from_role_arn(settings.region, settings.role, _SESSION)  # type: ignore[no-any-return] # the library ships no types
    if settings.profile is not None:
        return signer.generate_auth_token_from_profile(settings.region, settings.profile)  # type: ignore[no-any-return] # as above
    return signer.generate_auth_token(settings.region)  # type: ignore[no-any-return] # as above


def _failed(settings: MskIam, error: Exception, *, answered_before: bool) -> Exception:
    """A service that refused, was silent or throttled is judged by its text; no credentials at all are ours.

    Amazon's chain finds none, too, where the metadata service of an instance does not answer. Where credentials were
    found once, that is what has happened.
    """
    if isinstance(error, AttributeError):  # what the chain found is None, and the library looks into it
        if answered_before:
            return LoginFailed(f"AWS gives no credentials any more: {SILENT}", judged=SILENT)
        return CredentialRefused(
            "no credentials of AWS are found, or the metadata service of this instance does not answer",
            hint="name security.sasl.profile or role, or give this process an identity: environment, instance, pod",
        )
    who = settings.role or (f"profile {settings.profile}" if settings.profile else "the credentials of this process")
    return LoginFailed(f"AWS gives no credentials for {who}: {error}", judged=str(error))
