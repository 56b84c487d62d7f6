"""What a report says about itself: how it is read, and how intervals and tests are made."""

from __future__ import annotations

READING = (
    "Rows are systems; a cell is a set of runs that differ in their seed alone, and its seeds are averaged. "
    "Brackets are 95 % intervals: an interval tells how far a number would move with other test items (and, "
    "with several seeds, other seeds). A star marks a difference that chance alone hardly explains. Columns "
    "sort by a click on their heads, or by tab and enter; wide tables scroll in their boxes."
)
INTERVALS = (
    "Values are means over items, and over the seeds of a cell. With one seed, intervals are the run's own: "
    "percentile bootstrap over clusters of items (tools, operations), since items of one tool are not "
    "independent. With several seeds, seeds and clusters are resampled crossed: each replicate draws seeds "
    "and, once for all of them, clusters, so that the interval covers another seed as well as other items. "
    "With two or three seeds it knows little about seeds.\n\n"
    "Tests are two-sided and hold every system of a table against its best one on the same items. Within one "
    "run of one seed it is the run's own sign-flip test over clusters (s); else a paired bootstrap on the "
    "seeds both have, crossed with clusters (b). p-values are corrected by Holm's method within the table; large "
    "tables draw more resamples (up to 10,000), else none of their differences could be marked. The "
    "best of many is chosen on the data it is tested on, and is flattered by that: a held-out set tells its "
    "true value. Systems without item records, or without a seed in common with the best, are not tested. "
    "Numbers of different catalogs, tasks or test items are never averaged or compared."
)
