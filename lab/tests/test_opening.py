"""What of a section the page of a whole study shows at first."""

from __future__ import annotations

from weir_lab.report.page.arranging import behind_figures, differs_text, with_first
from weir_lab.report.page.blocks import Table, Text

TABLE = Table("a-cells", "All cells.", ("N",), ((1,),))


def test_why_the_study_found_otherwise_opens_with_a_sentence_that_says_something() -> None:
    long = "Its link was full with 24 clients already. It had three."
    short = "It named the proxy. It wrote 12,500/s by its stamps. So it was."
    assert differs_text("S3", long).leads == ("Its link was full with 24 clients already.",)
    assert differs_text("S3", short).leads == ("It named the proxy. It wrote 12,500/s by its stamps.",)
    found = differs_text("S3", short)
    assert (found.text, found.points) == ("Why S3 found otherwise, by its own numbers:", (short,))


def test_tables_open_on_demand_where_sentences_and_figures_show_what_they_have() -> None:
    text = Text("What the data say:")
    said, behind = behind_figures([text, TABLE], "clients")
    assert said is text
    assert isinstance(behind, Table)
    assert behind.opens_on_demand
    # No sentence has what the study printed.
    beside = Table("a-reached", "What is reached.", ("X", "Printed X"), ((1, 2),))
    assert behind_figures([beside], "clients") == [beside]
    # No figure draws shares of the variation.
    assert behind_figures([text, TABLE], "effects") == [text, TABLE]


def test_a_text_stands_first_unless_it_is_a_note() -> None:
    first, note = Text("9 of 60 cells are known."), Text("60 of 60 cells are known.", note=True)
    assert with_first([TABLE], first) == [first, TABLE]
    assert with_first([TABLE], note) == [TABLE, note]
    assert with_first([TABLE], None) == [TABLE]
