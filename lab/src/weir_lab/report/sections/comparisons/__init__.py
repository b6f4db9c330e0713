"""What is held against each other: ways to the same servers, and our numbers against the tables of a study.

``beside``     several proxies and none, in one sweep
``corners``    the cells of a 2^k design, and what each factor changes in each pair of them
``drawn``      what a study printed, in figures over clients
``maxima``     maxima of series over clients beside links and what a study printed, and their knees
``over_servers``  what the proxies' CPU quotas are spent on where servers are added
``overhead``   a whole study's proxy and none
``plateaus``   series that stop at the same throughput
``price``      a section's cells and those of earlier sections with fewer proxies or none
``queued``     requests in the proxies' queues, and whether these grow with the clients
``summaries``  the tables in which S3 and S5 summed up their sections
"""

__all__: list[str] = []
