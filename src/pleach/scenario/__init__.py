"""The scenario language: one TOML file describes a run in the simulator, the explorer and real processes.

    text ──tomllib──▶ tables ──read──▶ Scenario ──validate, timeline──▶ Scenario
              └──────positions: key path ──▶ line, for errors

`load_scenario` and `parse_scenario` return scenarios that are checked in full.

Imports core/.
"""

from pleach.scenario.load import load_scenario, parse_scenario
from pleach.scenario.model import Scenario, scenario_digest

__all__ = ["Scenario", "load_scenario", "parse_scenario", "scenario_digest"]
