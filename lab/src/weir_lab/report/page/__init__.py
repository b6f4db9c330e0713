"""What a page is made of, and the page.

``blocks``      values with intervals, tables, figures, sections
``arranging``   in which order a page shows a section
``charts``      panels as inline SVG
``shapes``      path data of charts
``drawings``    networks of queues, and machines with their links, as inline SVG; a figure as a file of its own
``data``        the data of a figure as a link
``numbers``     the numbers of a page, to be held against another
``complete``    what no page may hold
``html``        the page, and Markdown
"""

__all__: list[str] = []
