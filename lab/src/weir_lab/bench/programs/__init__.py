"""The programs of a run.

``subjects``    the proxy under test: its command line and files
``filling``     what is filled into them
``generators``  how clients are shared out to load generators, and the command line of each
``installed``   where the weir binary is
``identity``    which programs take part, and what tells one state of them from the next
``placing``     where keys fall, asked of the weir binary
"""

__all__: list[str] = []
