"""What limits a section, by two signs of it, by what twice of it would do, and by runs in which one station alone was changed.

``places``  where that is asked: a cell for each distinct plateau
``signs``   where a request's time is: the second sign of what limits, and the parts outside of a proxy
``bound``   what throughput is at most with twice a station, and what a fitted model says of that
``why``     the paragraph, and the values of which it is made. Start with `explained_of`
"""

from weir_lab.report.sections.claims.limits.signs import Explained
from weir_lab.report.sections.claims.limits.why import explained_of, what_limits, why

__all__ = ["Explained", "explained_of", "what_limits", "why"]
