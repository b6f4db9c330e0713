"""Machines and processes: what makes runs of a study, and nothing that judges them beyond whether they count.

``machine``    facts about this machine; its processes
``network``    machines out of one: namespaces, links, CPU quotas; what a killed lab left is known and removed
``testbeds``   where roles run: this machine, namespaces, hosts
``programs``   command lines of proxies and generators, which programs take part, and what is asked of the weir binary
``planning``   what a study will do, before anything runs
``running``    one attempt at one run, from start to verdict
``sweep``      a study becomes records, run by run; several studies as a set
``turns``      two systems in turn inside of one process life
``links``      do links bound real load as arithmetic says?

Start with `sweep.run`.
"""

__all__: list[str] = []
