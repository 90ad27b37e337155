"""Read by Python before anything else: under libfaketime an absolute sleep fails with EINVAL, and a wait does not."""

import threading
import time


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


time.sleep = _sleep
