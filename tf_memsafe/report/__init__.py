"""What happened to a function, to look at: as text, as HTML, as a picture, in TensorBoard."""

from tf_memsafe.report.content import (
    LARGEST_SHOWN,
    Blocker,
    Loop,
    Recomputed,
    Refused,
    Report,
    Rewritten,
    Tensor,
)
from tf_memsafe.report.history import headline, last_reports, record
from tf_memsafe.report.make import report_on
from tf_memsafe.report.message import limit_message

__all__ = [
    "LARGEST_SHOWN",
    "Blocker",
    "Loop",
    "Recomputed",
    "Refused",
    "Report",
    "Rewritten",
    "Tensor",
    "headline",
    "last_reports",
    "limit_message",
    "record",
    "report_on",
]
