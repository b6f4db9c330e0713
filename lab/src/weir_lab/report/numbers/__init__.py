"""Records become numbers.

``readings``         run folders -> numbers per run and per cell
``analysis``         records of one study -> every number of its report
``sweeps``           what a finished sweep says beyond its cells: effects, knees, models
``stations``         link bounds, utilization of each station, the bottleneck
``findings``         what the numbers say, in sentences made by rule
``interval_doubts``  what intervals rest on, and where they may hold less than they say
``comparing``        cells of sweeps in the linear model: changes, levels, at equal speed of the machine
``essence``          one compact table for the terminal
``published``        what the earlier studies printed, and its known errors
"""

__all__: list[str] = []
