"""What a login raises where its service refused it or did not answer: never a word about the cluster."""

from kafka import errors

from state.error_meanings import Found, meaning_of_authentication


class LoginFailed(errors.SaslAuthenticationFailedError):  # type: ignore[misc]  # the library ships no types for it
    """What was said, for people, and what it means."""

    def __init__(self, text: str, *, judged: str | None = None, found: Found | None = None) -> None:
        """``judged`` is the part of ``text`` that the service said; addresses in the rest shall not decide.

        ``found`` is given where something better than a text decides, as an HTTP status.
        """
        super().__init__(text)
        self.found = found or meaning_of_authentication(text if judged is None else judged)
