"""Runs that leave their folder.

``gathering``  runs of one study that were made in several places, as one sweep
``packing``    a sweep's runs as one small record: what reports use of them
``unpacking``  from that record back to run folders that give the same reports
``numbers``    histograms as text that compresses well
``files``      such records on disk
"""

__all__: list[str] = []
