"""From a study file to the study, or to what is wrong with it: `loading`, and `paces` for one study in minutes or in hours."""

__all__: list[str] = []
