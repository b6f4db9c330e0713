"""From a study file to the study, or to what is wrong with it.

``loading``    reads and checks
``paces``      one study in minutes, in hours, or as it was run before
``skeletons``  studies to begin with
"""

__all__: list[str] = []
