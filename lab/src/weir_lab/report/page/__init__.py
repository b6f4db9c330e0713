"""What a page is made of, and the page.

``blocks``      values with intervals, tables, figures, sections
``arranging``   in which order a page shows a section
``charts``      panels as inline SVG
``drawings``    networks of queues, and machines with their links, as inline SVG
``data``        the data of a figure as a link
``numbers``     the numbers of a page, to be held against another
``complete``    what no page may hold
``html``        the page, and Markdown
``standalone``  a figure of a report as a file of its own
"""

__all__: list[str] = []
