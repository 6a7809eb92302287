"""The package's logger. Transcripts, handles and keys are never passed to it."""

import logging

logger = logging.getLogger("livekit.plugins.resilient")
