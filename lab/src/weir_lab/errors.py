"""What can go wrong, by who can mend it.

``LabError``
    ``StudyError``: the study file; its author mends it.
    ``RecordError``: a file written by a run is missing, damaged or of another schema.
    ``TestbedError``: a process did not start, answer or stop as it should.
    ``ReportError``: the data do not support a complete report.

Every message says what happened, where, and what to do.

``StoppedError`` is none of them: a signal asked to stop, and nothing went wrong.
"""

__all__ = ["LabError", "RecordError", "ReportError", "StoppedError", "StudyError", "TestbedError"]


class LabError(Exception):
    """Base of every error that the command line shows without a traceback."""


class StudyError(LabError):
    """A study file that cannot be run."""


class RecordError(LabError):
    """A record that cannot be read."""


class TestbedError(LabError):
    """A role (memcached server, proxy, load generator) that misbehaved."""

    __test__ = False  # pytest must not take the name for a test class


class ReportError(LabError):
    """Data from which no complete report can be made."""


class StoppedError(Exception):
    """A signal asked to stop. Not `KeyboardInterrupt`, which the command line's library would answer itself."""
