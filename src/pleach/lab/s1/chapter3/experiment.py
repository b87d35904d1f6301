"""S1 Fig. 3.2–3.18: filtering with leases against flooding, simulated and computed (S1 §3.3.3 and §3.5)."""

from __future__ import annotations

from pleach.lab.experiment import Experiment, Size
from pleach.lab.s1.chapter3 import break_even as s1_break_even
from pleach.lab.s1.chapter3 import figures as s1_filtering_figures
from pleach.lab.s1.chapter3.filtering_runs import cases, cost, measure

FILTERING = Experiment(
    name="s1-filtering",
    about="filtering with leases against flooding, up to 500,000 subscriptions: simulation and model",
    cases=cases,
    seeds={Size.QUICK: 5, Size.USUAL: 8, Size.FULL: 30},
    measure=measure,
    cost=cost,
    figures=(*s1_break_even.FIGURES, *s1_filtering_figures.FIGURES),
    tables=(s1_break_even.BREAK_EVENS,),
)
