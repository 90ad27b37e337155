"""What every test may count on."""

import signal

# A shell makes what it starts in the background deaf to SIGINT, and a deaf process has deaf children: the tests that
# interrupt a verb would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
