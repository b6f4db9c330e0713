"""A study file becomes cells and an order to run them in.

Read `load_study` first. A *setting* is anything that a run can vary (`Settings`); the file gives each setting once, either one
value under ``[fixed]`` or several levels under ``[factors]``. A *cell* is one combination of levels; a *run* is one cell once.

``settings``  what can vary
``study``     the tables of a study file
``topology``  what the machines of a study are like
``cells``     combinations of levels, and the order of the runs
``partners``  which cells a cell is compared with
``content``   when a run is the same run
``text``      levels that depend on other settings, and exclusions; where in the file a key stands, and what is wrong with it in plain words
``files``     from the file to the study, or to what is wrong with it; paces; studies to begin with
``whole``     several studies as one
"""

from weir_lab.design.cells import Cell, Made, ScheduledRun, block, cells_of, levels_of_clients, schedule, scheduled_like
from weir_lab.design.content import content_sha256, load_seed, subject_program
from weir_lab.design.files.loading import amended, load_study, parse_study, study_schema
from weir_lab.design.partners import anchors_of, contrast_partners, neighbours
from weir_lab.design.settings import Engine, Level, RequestPath, Response, Role, Settings
from weir_lab.design.study import (
    PACES,
    SEARCH_RUNS_MIN,
    STARTED_SETTINGS,
    Expected,
    FaultsError,
    Gates,
    Kind,
    Night,
    Observed,
    PacePlan,
    Plan,
    Prediction,
    Refinement,
    Search,
    Stop,
    Study,
    Subject,
)
from weir_lab.design.text.expressions import Expression, ExpressionError

__all__ = [
    "PACES",
    "SEARCH_RUNS_MIN",
    "STARTED_SETTINGS",
    "Cell",
    "Engine",
    "Expected",
    "Expression",
    "ExpressionError",
    "FaultsError",
    "Gates",
    "Kind",
    "Level",
    "Made",
    "Night",
    "Observed",
    "PacePlan",
    "Plan",
    "Prediction",
    "Refinement",
    "RequestPath",
    "Response",
    "Role",
    "ScheduledRun",
    "Search",
    "Settings",
    "Stop",
    "Study",
    "Subject",
    "amended",
    "anchors_of",
    "block",
    "cells_of",
    "content_sha256",
    "contrast_partners",
    "levels_of_clients",
    "load_seed",
    "load_study",
    "neighbours",
    "parse_study",
    "schedule",
    "scheduled_like",
    "study_schema",
    "subject_program",
]
