"""From records to what people read: numbers, sentences, tables, figures, pages.

``numbers``        records -> numbers per run and per cell, and what follows from them
``page``           values, tables, figures, sections; charts as inline SVG; the page itself
``common``         what sections share; ``printed_times`` for those that stand beside printed numbers
``sections``       one kind of section each
``sets``           sections of a whole study -> its report, its twin, and their comparison
``single``         the report of one sweep
``comparison``     the page of two systems in turn
``audit``          which printed numbers break which law
``oracles``        numbers whose right value is known, and the check against them
"""

__all__: list[str] = []
