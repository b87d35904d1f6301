"""The scenario language: one TOML file says what runs, in every world alike.

    text ──tomllib──▶ tables ──read──▶ Scenario ──validate, timeline──▶ Scenario
              └──────locate: key path ──▶ line, for what is wrong

`load_scenario` and `parse_scenario` are the doors; what comes out of them has been checked in full.
"""

from pleach.scenario.load import load_scenario, parse_scenario
from pleach.scenario.model import Scenario, scenario_digest

__all__ = ["Scenario", "load_scenario", "parse_scenario", "scenario_digest"]
