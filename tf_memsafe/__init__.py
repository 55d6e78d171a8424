"""Naive TensorFlow code in a memory limit: see README.md."""

from tf_memsafe.decorator import function
from tf_memsafe.errors import MemoryLimitError, MemorySafetyWarning
from tf_memsafe.explain import explain
from tf_memsafe.hook import get_memory_limit, memory_limit, set_memory_limit
from tf_memsafe.notebook import load_ipython_extension as load_ipython_extension
from tf_memsafe.notebook import unload_ipython_extension as unload_ipython_extension
from tf_memsafe.report import Report, last_reports
from tf_memsafe.rewrite.options import get_optimizer_options, set_optimizer_options

__all__ = [
    "MemoryLimitError",
    "MemorySafetyWarning",
    "Report",
    "explain",
    "function",
    "get_memory_limit",
    "get_optimizer_options",
    "last_reports",
    "memory_limit",
    "set_memory_limit",
    "set_optimizer_options",
]
